//! The exponential of a softmax: a function library's, or what torch's flash attention on a CPU takes for one.
//!
//! ```text
//! eˣ ≈ the f32 whose bits are 2²³·(s − r(s − ⌊s⌋) + 127)        s = x·log₂e        r(f) = c₀ + f·(c₁ + f·(c₂ + f·c₃))
//! ```
//!
//! - Rounding: R1 x to f32; s and s − r to f32; r and the bits fused, so each step of Horner's scheme once; the bits cut off.
//! - Below the smallest normal f32 it is 0.
//! - Of 16-bit queries, keys and values torch computes it so, eight keys at a time, or sixteen where the processor has AVX-512.
//!   What is left of the keys of a call has a library's; where these are others (sixteen at a time, behind padding, in a cache of
//!   fixed length) both are within [`Exponential::off`] of one another. Its quintic, of f32, is not performed, and is within the bound.
//! - Source: `fexp_u20` in torch 2.15's `ATen/cpu/vec/vec256/vec256_float.h`, `_exp_reduce_sum_fusion_kernel` in its
//!   `FlashAttentionKernel.cpp`.

use std::f32::consts::LOG2_E;

use crate::Real;
use crate::rounding::Exponential;

/// c₀ to c₃.
const R: [f32; 4] = [0.000_107_034_35, 0.303_542_6, -0.224_338_37, -0.079_204_24];

/// The unit in the last place of an f32's exponent, as its bits count.
const EXPONENT: f32 = 8_388_608.0;

/// What an f32's exponent of 0 is stored as.
const BIAS: f32 = 127.0;

/// ln of the smallest normal f32, below which torch has 0.
const LOWEST: f32 = f32::from_bits(0xc2ae_ac50);

/// eˣ of x ≤ 0.
pub(super) fn exponential<T: Real>(by: Exponential, x: T) -> T {
    match by {
        Exponential::Library | Exponential::Quintic => x.exp(),
        Exponential::Cubic => T::of(f64::from(cubic(x.wide()))),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the bits of a positive f32, cut off as torch does"
)]
fn cubic(x: f64) -> f32 {
    let x = x as f32; // R1
    if x.is_nan() {
        return x;
    }
    if x < LOWEST {
        return 0.0;
    }
    let s = x * LOG2_E;
    let f = s - s.floor();
    let r = f.mul_add(R[3], R[2]).mul_add(f, R[1]).mul_add(f, R[0]);
    f32::from_bits(EXPONENT.mul_add(s - r, BIAS * EXPONENT) as u32)
}
