//! Numbers of eight bits: E4M3, the elements of quantized matrices, and E8M0, powers of two that scale them.

use crate::storage::{exponent, power_above, power_of_two};

/// By how much an f32's exponent is more than that of an E4M3 with the same bits in it, in its place.
const ABOVE: u32 = 120 << 23;

/// The smallest normal number, 2⁻⁶.
const NORMAL: f32 = f32::from_bits((127 - 6) << 23);

/// The largest number.
const LARGEST: f32 = 448.0;

/// What a byte is as an E4M3: bit 7 the sign, bits 6 to 3 the exponent with bias 7, the others of significand; 0 has subnormal
/// numbers, and of 15 only all ones are no number.
#[inline]
pub(super) fn number(bits: u8) -> f32 {
    let (sign, magnitude) = (u32::from(bits & 0x80) << 24, u32::from(bits & 0x7f));
    // An f32's exponent and significand take them as they are; subnormal numbers are what is more than the smallest normal one.
    // Which one it is is asked of the f32, so that many are decoded at a time.
    let bits = (magnitude << 20) + ABOVE;
    let (normal, subnormal) = (f32::from_bits(bits), f32::from_bits(bits + (1 << 23)) - NORMAL);
    let value = if normal < NORMAL { subnormal } else { normal };
    let value = if normal > LARGEST { f32::NAN } else { value };
    f32::from_bits(value.to_bits() | sign)
}

/// The byte of a value of E4M3, or of what is no number.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 15 and 126")]
pub(super) fn e4m3(x: f64) -> u8 {
    let sign = if x.is_sign_negative() { 0x80 } else { 0 };
    if x.is_nan() {
        return sign | 0x7f;
    }
    let exponent = exponent(x).max(-6);
    // In units of the spacing: below 8 for subnormal numbers, whose bits go on in those of normal ones.
    let units = (x.abs() * power_of_two(3 - exponent)) as u8;
    sign | ((((exponent + 6) as u8) << 3) + units)
}

/// 2 to the power of a byte less 127; 255 is no number.
pub(super) fn power(bits: u8) -> f64 {
    if bits == u8::MAX { f64::NAN } else { (f64::from(bits) - 127.0).exp2() }
}

/// The byte of the power of two that is not below x, from 2⁻¹²⁷ to 2¹²⁷.
#[expect(clippy::cast_sign_loss, reason = "clamped to a byte")]
pub(super) fn byte_of_power(x: f64) -> u8 {
    if x.is_nan() { u8::MAX } else { (exponent(power_above(x)) + 127).clamp(0, 254) as u8 }
}
