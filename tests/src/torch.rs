//! The exponentials of torch's flash attention on a CPU, as `ATen`'s `vec512_float.h` computes them, lane by lane.

const LOWEST: f32 = f32::from_bits(0xc2ae_ac50);

/// `Vectorized<float>::fexp_u20`, for bf16 and f16: a cubic for the fraction of x·log₂e, and the whole as bits of an f32.
/// Of no argument above 88.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the bits of a positive f32")]
pub fn fexp_u20(x: f32) -> f32 {
    const C: [f32; 4] = [0.000_107_034_35, 0.303_542_6, -0.224_338_37, -0.079_204_24];
    const MANTISSA: f32 = 8_388_608.0;
    if x < LOWEST {
        return 0.0;
    }
    let s = x * std::f32::consts::LOG2_E;
    let fraction = s - s.floor();
    let r = fraction.mul_add(C[3], C[2]).mul_add(fraction, C[1]).mul_add(fraction, C[0]);
    f32::from_bits(MANTISSA.mul_add(s - r, 127.0 * MANTISSA) as u32)
}

/// `Vectorized<float>::exp_u20`, for f32: a quintic of what is left of x above a multiple of ln 2.
pub fn exp_u20(x: f32) -> f32 {
    const C: [f32; 6] = [1.0, 0.999_999_7, 0.499_991_5, 0.166_676_52, 0.041_897_822, 0.008_289_291];
    if x < LOWEST {
        return 0.0;
    }
    let n = x.mul_add(std::f32::consts::LOG2_E, 0.5).floor();
    let r = (-n).mul_add(std::f32::consts::LN_2, x);
    let power = C.iter().rev().fold(0.0_f32, |sum, c| sum.mul_add(r, *c));
    // 2ⁿ⁻¹ · 2: 2ⁿ alone may lie beyond the largest exponent.
    power * (n - 1.0).exp2() * 2.0
}
