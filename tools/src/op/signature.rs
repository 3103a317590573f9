//! What an operator reads and makes.

/// An operator in words.
#[derive(Debug)]
pub struct Signature {
    /// What it is called, as its file in `reference/src/ops`.
    pub name: &'static str,
    /// Its equation.
    pub equation: &'static str,
    /// The tensors that it reads, with their shapes.
    pub inputs: &'static [(&'static str, &'static str)],
    /// The numbers that it takes: what they are where they are not given, and what they are.
    pub numbers: &'static [(&'static str, Option<f64>, &'static str)],
    /// The tensors that it makes, with their shapes.
    pub outputs: &'static [(&'static str, &'static str)],
}
