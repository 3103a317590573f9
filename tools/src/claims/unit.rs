//! Units in which the documents state numbers, and numbers as they are printed.

/// A unit: what stands around a number, and what one of it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    before: &'static str,
    after: &'static str,
    /// What one of it is: parameters, operations, bytes or 1.
    pub scale: f64,
}

const fn after(after: &'static str, scale: f64) -> Unit {
    Unit { before: "", after, scale }
}

/// A bare number.
pub const ONE: Unit = after("", 1.0);
/// How many times another.
pub const TIMES: Unit = after("×", 1.0);
/// A ratio to one.
pub const TO_ONE: Unit = after(":1", 1.0);
/// One in so many.
pub const ONE_IN: Unit = Unit { before: "1/", after: "", scale: 1.0 };
/// Hundredths.
pub const PERCENT: Unit = after(" %", 0.01);
/// Percentage points.
pub const POINTS: Unit = after(" pp", 1.0);
/// 1024.
pub const KI: Unit = after(" Ki", 1024.0);
/// Thousands of parameters.
const K: Unit = after(" K", 1e3);
/// Millions of parameters.
pub const M: Unit = after(" M", 1e6);
/// Billions (10⁹) of parameters.
pub const B: Unit = after(" B", 1e9);
/// An operation.
const FLOP: Unit = after(" FLOP", 1.0);
/// 10³ operations.
const KFLOP: Unit = after(" kFLOP", 1e3);
/// 10⁶ operations.
pub const MFLOP: Unit = after(" MFLOP", 1e6);
/// 10⁹ operations.
pub const GFLOP: Unit = after(" GFLOP", 1e9);
/// 10¹² operations.
pub const TFLOP: Unit = after(" TFLOP", 1e12);
/// 10¹⁵ operations.
pub const PFLOP: Unit = after(" PFLOP", 1e15);
/// A byte.
const BYTE: Unit = after(" B", 1.0);
/// 10³ bytes.
const KB: Unit = after(" kB", 1e3);
/// 10⁶ bytes.
pub const MB: Unit = after(" MB", 1e6);
/// 10⁹ bytes.
pub const GB: Unit = after(" GB", 1e9);
/// 2¹⁰ bytes.
const KIB: Unit = after(" KiB", 1024.0);
/// 2²⁰ bytes.
const MIB: Unit = after(" MiB", 1_048_576.0);
/// 2³⁰ bytes.
pub const GIB: Unit = after(" GiB", 1_073_741_824.0);

/// Units of parameters.
pub const PARAMETERS: [Unit; 4] = [ONE, K, M, B];
/// Units of operations.
pub const OPERATIONS: [Unit; 6] = [FLOP, KFLOP, MFLOP, GFLOP, TFLOP, PFLOP];
/// Decimal units of memory.
pub const DECIMAL: [Unit; 4] = [BYTE, KB, MB, GB];
/// Binary units of memory.
pub const BINARY: [Unit; 4] = [BYTE, KIB, MIB, GIB];

/// A value in the largest of some units, in ascending order, of which there is one or more of it.
pub fn fitting(units: &[Unit], value: f64) -> String {
    let unit = units.iter().rfind(|unit| value >= unit.scale).or(units.first()).expect("there are units");
    unit.show(value, 0)
}

/// Significant digits that a recomputed number is printed with, at least.
const DIGITS: i32 = 4;

impl Unit {
    /// A number with its unit.
    pub fn with(self, number: &str) -> String {
        format!("{}{number}{}", self.before, self.after)
    }

    /// A value in this unit: a digit more than `decimals`, and four at least, without zeros that say nothing.
    pub fn show(self, value: f64, decimals: usize) -> String {
        let value = value / self.scale;
        let magnitude = if value == 0.0 { 0 } else { exponent(value) };
        let significant = usize::try_from(DIGITS - 1 - magnitude).unwrap_or(0);
        let text = format!("{value:.*}", significant.max(decimals + 1));
        let text = text.trim_end_matches('0').trim_end_matches('.');
        self.with(&grouped(text))
    }
}

/// The power of ten of a number's first digit.
#[expect(clippy::cast_possible_truncation, reason = "the logarithm of a finite number is small")]
fn exponent(value: f64) -> i32 {
    value.abs().log10().floor() as i32
}

/// Digits before the point in groups of three.
fn grouped(number: &str) -> String {
    let (whole, rest) = number.find('.').map_or((number, ""), |point| number.split_at(point));
    let mut text = String::new();
    for (place, digit) in whole.chars().enumerate() {
        let left = whole.len() - place;
        if left.is_multiple_of(3) && text.ends_with(|c: char| c.is_ascii_digit()) {
            text.push(',');
        }
        text.push(digit);
    }
    text + rest
}
