//! Numbers of eight bits: E4M3, the elements of quantized matrices, and E8M0, powers of two that scale them.

use crate::storage::{exponent, power_above};

/// What each byte is as an E4M3.
pub(super) const E4M3_OF_BITS: [f32; 256] = {
    let mut values = [0.0; 256];
    let mut bits = 0_u8;
    loop {
        values[bits as usize] = value(bits);
        match bits.checked_add(1) {
            Some(next) => bits = next,
            None => break values,
        }
    }
};

/// Bit 7 the sign, bits 6 to 3 the exponent with bias 7, the others of significand; 0 has subnormal numbers, and of 15 only all
/// ones are no number.
const fn value(bits: u8) -> f32 {
    let (exponent, significand) = (bits >> 3 & 15, bits & 7);
    let magnitude = match (exponent, significand) {
        (15, 7) => f32::NAN,
        (0, _) => significand as f32 / 512.0,
        // 2^(e − 7)·(1 + m/8), of which 2^(e − 10) is the spacing.
        _ => (8 + significand) as f32 * f32::from_bits((exponent as u32 + 117) << 23),
    };
    if bits >> 7 == 1 { -magnitude } else { magnitude }
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
    let units = (x.abs() / f64::from(exponent - 3).exp2()) as u8;
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
