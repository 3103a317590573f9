//! Values for operands whose values do not matter: drawn once, from −0.1 to 0.1, and repeated.

use half::bf16;
use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Values, in each of the types that operands have.
#[derive(Debug)]
pub struct Pattern {
    /// In bf16.
    pub narrow: Vec<bf16>,
    /// The same in f32.
    pub wide: Vec<f32>,
    /// In E4M3, from −3.75 to 3.75 but for what is below 0.25.
    pub codes: Vec<u8>,
}

/// How many: no power of two times a row's length, so that rows differ.
const COUNT: usize = (1 << 19) + 8;

impl Pattern {
    /// Draws them.
    pub fn drawn() -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let narrow: Vec<bf16> = (0..COUNT).map(|_| bf16::from_f32(rng.random_range(-0.1..0.1))).collect();
        let wide = narrow.iter().map(|&x| f32::from(x)).collect();
        // Exponents from −2 to 1, and any sign and significand.
        let code = |bits: u8| bits & 0x87 | (5 + (bits >> 3 & 3)) << 3;
        let codes = (0..COUNT).map(|_| code(rng.random())).collect();
        Pattern { narrow, wide, codes }
    }

    /// A matrix of them in f64.
    pub fn array(&self, dim: (usize, usize)) -> Array2<f64> {
        let mut values = self.wide.iter().cycle().map(|&x| f64::from(x));
        Array2::from_shape_simple_fn(dim, || values.next().expect("a cycle has no end"))
    }

    /// The bytes of so many elements in bf16.
    pub fn bytes(&self, count: usize) -> Vec<u8> {
        let once: Vec<u8> = self.narrow.iter().flat_map(|x| x.to_le_bytes()).collect();
        let mut bytes = Vec::with_capacity(2 * count);
        while bytes.len() < 2 * count {
            bytes.extend_from_slice(&once[..once.len().min(2 * count - bytes.len())]);
        }
        bytes
    }
}
