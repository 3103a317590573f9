//! What an operator reads and makes.

/// An operator in words.
#[derive(Debug)]
pub struct Signature {
    /// What it is called: as its file in `reference/src/ops`, or, where that has several, as the function there.
    pub name: &'static str,
    /// Its equation.
    pub equation: &'static str,
    /// The tensors that it reads.
    pub inputs: &'static [Port],
    /// The numbers that it takes.
    pub numbers: &'static [Number],
    /// The tensors that it makes; an optional one is made of optional inputs.
    pub outputs: &'static [Port],
}

/// A tensor by its name.
#[derive(Debug, Clone, Copy)]
pub struct Port {
    /// What it is called.
    pub name: &'static str,
    /// Its shape.
    pub shape: &'static str,
    /// Whether it may be left out.
    pub is_optional: bool,
}

/// A number by its name.
#[derive(Debug, Clone, Copy)]
pub struct Number {
    /// What it is called.
    pub name: &'static str,
    /// What it is where it is not given.
    pub default: Default,
    /// What it says.
    pub what: &'static str,
}

/// What a number is where it is not given.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Default {
    /// It has to be.
    Needed,
    /// This.
    Is(f64),
    /// The operator does without.
    Absent,
    /// 0 for no; only that and 1 are taken.
    No,
}

/// A tensor that has to be there.
pub(super) const fn port(name: &'static str, shape: &'static str) -> Port {
    Port { name, shape, is_optional: false }
}

/// One that may be there.
pub(super) const fn optional(name: &'static str, shape: &'static str) -> Port {
    Port { name, shape, is_optional: true }
}

/// A number that has to be given.
pub(super) const fn needed(name: &'static str, what: &'static str) -> Number {
    Number { name, default: Default::Needed, what }
}

/// A number with what it is otherwise.
pub(super) const fn or(name: &'static str, value: f64, what: &'static str) -> Number {
    Number { name, default: Default::Is(value), what }
}

/// A number that may be given.
pub(super) const fn if_given(name: &'static str, what: &'static str) -> Number {
    Number { name, default: Default::Absent, what }
}

/// Rows of d columns, however many axes they have.
pub(super) const X: Port = port("x", "[…, d]");
/// What is made of them, of the same shape.
pub(super) const Y: Port = port("y", "[…, d]");

/// Whether something is so, 0 or 1.
pub(super) const fn flag(name: &'static str, what: &'static str) -> Number {
    Number { name, default: Default::No, what }
}
