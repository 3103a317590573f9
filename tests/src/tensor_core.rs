//! The arithmetic of Hopper's tensor cores on bf16, by its definition and in whole numbers only.
//!
//! One step of 16: the products and the accumulator are aligned to the largest of their exponents, where a product's
//! exponent is the sum of its factors' and a zero's is −126; each is truncated toward zero at 25 fractional bits of that
//! exponent; they are added exactly; the sum is truncated to f32. (MMA-Sim, arXiv 2511.10909.)

use half::bf16;

/// Values of k in one step.
pub const STEP: usize = 16;

/// Bits kept below the largest exponent.
const FRACTION_BITS: i32 = 25;

/// A finite number as significand·2^exponent, and the exponent that counts when numbers are aligned.
#[derive(Clone, Copy)]
struct Term {
    significand: i128,
    exponent: i32,
    aligns_at: i32,
}

/// Splits a float with 8 bits of exponent and `fraction_bits` of fraction.
fn split(bits: u32, fraction_bits: i32) -> Term {
    let field = (bits >> fraction_bits & 0xff).cast_signed();
    let fraction = i128::from(bits & ((1 << fraction_bits) - 1));
    let magnitude = if field == 0 { fraction } else { fraction + (1 << fraction_bits) };
    let negative = bits >> (fraction_bits + 8) & 1 == 1;
    let aligns_at = field.max(1) - 127;
    Term { significand: if negative { -magnitude } else { magnitude }, exponent: aligns_at - fraction_bits, aligns_at }
}

/// significand·2^shift, toward zero.
fn shifted(significand: i128, shift: i32) -> i128 {
    match shift {
        _ if significand == 0 => 0,
        0.. => significand << shift,
        -126..0 => significand / (1 << -shift),
        _ => 0,
    }
}

/// significand·2^exponent as f32, toward zero; infinite if it is too large.
fn to_f32(significand: i128, exponent: i32) -> f32 {
    let magnitude = significand.unsigned_abs();
    if magnitude == 0 {
        return 0.0;
    }
    let top = 127 - magnitude.leading_zeros().cast_signed() + exponent;
    if top > 127 {
        return if significand < 0 { f32::NEG_INFINITY } else { f32::INFINITY };
    }
    let last = (top - 23).max(-149);
    let kept = shifted(magnitude.cast_signed(), exponent - last);
    let fraction = u32::try_from(kept).expect("at most 24 bits");
    let field = if fraction < 1 << 23 { 0 } else { (last + 150).cast_unsigned() };
    let sign = u32::from(significand < 0 && fraction != 0) << 31;
    f32::from_bits(sign | field << 23 | fraction & 0x7f_ffff)
}

/// c + Σ a·b over one step.
pub fn step(a: &[bf16; STEP], b: &[bf16; STEP], c: f32) -> f32 {
    let plain = a.iter().zip(b).fold(f64::from(c), |sum, (&a, &b)| sum + f64::from(a) * f64::from(b));
    if plain.is_nan() {
        return f32::from_bits(0x7fff_ffff);
    }
    if plain.is_infinite() {
        return if plain > 0.0 { f32::INFINITY } else { f32::NEG_INFINITY };
    }
    let product = |(a, b): (&bf16, &bf16)| {
        let (a, b) = (split(u32::from(a.to_bits()), 7), split(u32::from(b.to_bits()), 7));
        Term {
            significand: a.significand * b.significand,
            exponent: a.exponent + b.exponent,
            aligns_at: a.aligns_at + b.aligns_at,
        }
    };
    let terms: Vec<Term> = a.iter().zip(b).map(product).chain([split(c.to_bits(), 23)]).collect();
    let largest = terms.iter().map(|term| term.aligns_at).max().expect("17 terms");
    let last = largest - FRACTION_BITS;
    to_f32(terms.iter().map(|term| shifted(term.significand, term.exponent - last)).sum(), last)
}

/// Σ a·b in the order of every GEMM of the project: chunks of 512, each one chain of steps from zero, added upward in
/// f32.
pub fn dot(a: &[bf16], b: &[bf16]) -> f32 {
    const CHUNK: usize = 512;
    a.chunks(CHUNK).zip(b.chunks(CHUNK)).map(|(a, b)| chain(a, b)).fold(0.0, |total, sum| total + sum)
}

/// Σ a·b in one chain of steps from zero, as a library adds that never promotes.
pub fn chain(a: &[bf16], b: &[bf16]) -> f32 {
    let padded = |values: &[bf16]| {
        let mut step = [bf16::ZERO; STEP];
        step[..values.len()].copy_from_slice(values);
        step
    };
    a.chunks(STEP).zip(b.chunks(STEP)).fold(0.0, |sum, (a, b)| step(&padded(a), &padded(b), sum))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bf16s(values: [f32; STEP]) -> [bf16; STEP] {
        values.map(bf16::from_f32)
    }

    #[test]
    fn whole_numbers_are_exact() {
        let a = bf16s(std::array::from_fn(|i| i as f32));
        assert_eq!(step(&a, &a, -1000.0), 240.0);
    }

    /// 1 + 2⁻²⁶ loses the small term, and so do sixteen of them, which exact addition would round up.
    #[test]
    fn what_lies_below_25_bits_is_lost_before_the_sum() {
        let mut a = [bf16::from_f32(2.0_f32.powi(-13)); STEP];
        let b = a;
        assert_eq!(step(&a, &b, 1.0), 1.0);
        a[0] = bf16::from_f32(2.0_f32.powi(-12));
        assert_eq!(step(&a, &b, 0.0), 17.0 * 2.0_f32.powi(-26));
    }

    /// A zero's exponent is −126, so beside 2¹²⁰ it stands at −6, and what is below 2⁻³¹ is lost.
    #[test]
    fn a_zero_has_an_exponent() {
        let (mut a, mut b) = ([bf16::ZERO; STEP], [bf16::ZERO; STEP]);
        (a[0], b[0]) = (bf16::from_f32(2.0_f32.powi(-20) + 2.0_f32.powi(-27)), bf16::from_f32(2.0_f32.powi(-6)));
        assert_eq!(step(&a, &b, 0.0), 2.0_f32.powi(-26) + 2.0_f32.powi(-33));
        b[1] = bf16::from_f32(2.0_f32.powi(120));
        assert_eq!(step(&a, &b, 0.0), 2.0_f32.powi(-26));
    }

    /// 1.5·1.5 = 2.25 aligns at exponent 0, not 1: so 2⁻²⁵ is still seen beside it.
    #[test]
    fn products_are_not_normalized_before_they_are_aligned() {
        let mut a = [bf16::ZERO; STEP];
        let mut b = a;
        (a[0], b[0]) = (bf16::from_f32(1.5), bf16::from_f32(1.5));
        (a[1], b[1]) = (bf16::from_f32(-1.5), bf16::from_f32(1.5));
        (a[2], b[2]) = (bf16::from_f32(2.0_f32.powi(-25)), bf16::ONE);
        assert_eq!(step(&a, &b, 0.0), 2.0_f32.powi(-25));
    }

    #[test]
    fn results_are_truncated_into_the_subnormals_and_overflow_to_infinity() {
        let tiny = bf16::from_f32(1.5 * 2.0_f32.powi(-75));
        let (mut a, mut b) = ([bf16::ZERO; STEP], [bf16::ZERO; STEP]);
        (a[0], b[0]) = (tiny, tiny);
        assert_eq!(step(&a, &b, 0.0), 2.0_f32.powi(-149));
        (a[0], b[0]) = (bf16::MAX, bf16::MAX);
        assert_eq!(step(&a, &b, 0.0), f32::INFINITY);
        b[1] = bf16::INFINITY;
        assert!(step(&a, &b, 0.0).is_nan(), "0·∞");
    }
}
