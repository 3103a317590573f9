//! Matrices of drawn values, the same for the same seed.

use half::bf16;
use ndarray::Array2;

/// Draws numbers: the generator of Steele, Lea and Flood.
#[derive(Debug, Clone)]
pub struct Draw(u64);

impl Draw {
    /// A sequence for each seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 32 random bits.
    pub fn bits32(&mut self) -> u32 {
        u32::try_from(self.bits() >> 32).expect("the upper half")
    }

    /// 16 random bits.
    pub fn bits16(&mut self) -> u16 {
        u16::try_from(self.bits() >> 48).expect("the upper quarter")
    }

    /// A number from 0 up to, not including, `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end
    }

    /// A number between −1 and 1.
    pub fn signed_unit(&mut self) -> f32 {
        let numerator = i32::try_from(self.below(1 << 25)).expect("25 bits fit") - (1 << 24);
        numerator as f32 / (1 << 24) as f32
    }
}

/// Whole numbers from −`largest` to `largest`: sums of their products are exact in any order, as long as they stay
/// below 2²⁴.
pub fn whole_numbers(seed: u64, dim: (usize, usize), largest: i8) -> Array2<bf16> {
    let mut draw = Draw::new(seed);
    let choices = 2 * u64::from(largest.unsigned_abs()) + 1;
    Array2::from_shape_simple_fn(dim, || {
        let value = i16::try_from(draw.below(choices)).expect("few choices") - i16::from(largest);
        bf16::from_f32(f32::from(value))
    })
}

/// Values as activations have them: of both signs, mostly between ¹⁄₁₆ and 4.
pub fn activations(seed: u64, dim: (usize, usize)) -> Array2<bf16> {
    let mut draw = Draw::new(seed);
    Array2::from_shape_simple_fn(dim, || {
        let scale = [0.0625, 0.25, 1.0, 4.0][usize::try_from(draw.below(4)).expect("below 4")];
        bf16::from_f32(draw.signed_unit() * scale)
    })
}

/// The rows whose values stand in the place of each of so many, where of parts of so many rows the second and the third are
/// exchanged.
pub fn second_and_third_exchanged(part: usize, rows: usize) -> Vec<usize> {
    let of = |row: usize| match row / part {
        1 => row + part,
        2 => row - part,
        _ => row,
    };
    (0..rows).map(of).collect()
}
