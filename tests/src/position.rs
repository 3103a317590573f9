//! Matrices whose values tell where they are.
//!
//! An element's number, counted row by row, is written in digits of seven bits, in a matrix for each digit. Digit d is the
//! odd number 2d + 1: a bf16 holds it exactly, it differs from 0, which is what is read where nothing is, and a power of
//! two that it is multiplied by is told from it.

use half::bf16;
use ndarray::Array2;

const DIGIT_BITS: u32 = 7;

/// A matrix of this shape, in digits.
#[derive(Debug, Clone, Copy)]
pub struct Coded {
    dim: (usize, usize),
}

/// What a value was read from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Read {
    /// From nowhere: it is 0.
    Nothing,
    /// From one element, times a power of two.
    One {
        /// Row and column.
        at: (usize, usize),
        /// The power of two.
        factor: f64,
    },
    /// From something else, such as a sum of elements.
    Mixed,
}

impl Coded {
    /// Of so many rows and columns.
    pub fn new(dim: (usize, usize)) -> Self {
        Coded { dim }
    }

    /// How many digits tell the elements apart.
    pub fn digits(&self) -> u32 {
        let largest = (self.dim.0 * self.dim.1).saturating_sub(1);
        (usize::BITS - largest.leading_zeros()).div_ceil(DIGIT_BITS).max(1)
    }

    /// The matrix of one digit, the lowest first.
    pub fn digit(&self, which: u32) -> Array2<bf16> {
        Array2::from_shape_fn(self.dim, |(i, j)| {
            let digit = (i * self.dim.1 + j) >> (which * DIGIT_BITS) & ((1 << DIGIT_BITS) - 1);
            bf16::from_f32(2.0 * digit as f32 + 1.0)
        })
    }

    /// All of them.
    pub fn all(&self) -> Vec<Array2<bf16>> {
        (0..self.digits()).map(|which| self.digit(which)).collect()
    }

    /// What these values, one for each digit, were read from.
    pub fn read(&self, values: &[f64]) -> Read {
        if values.iter().all(|&value| value == 0.0) {
            return Read::Nothing;
        }
        let (mut number, mut factor) = (0, None);
        for (&value, which) in values.iter().zip(0..) {
            let Some((odd, power)) = odd_part(value) else { return Read::Mixed };
            if odd >> (DIGIT_BITS + 1) != 0 || *factor.get_or_insert(power) != power {
                return Read::Mixed;
            }
            number |= (odd / 2) << (which * DIGIT_BITS);
        }
        let at = (number / self.dim.1, number % self.dim.1);
        match factor {
            Some(factor) if at.0 < self.dim.0 => Read::One { at, factor },
            _ => Read::Mixed,
        }
    }
}

/// An odd number and a power of two whose product is x; `None` of 0, of negative numbers and of what is none.
fn odd_part(x: f64) -> Option<(usize, f64)> {
    if !x.is_normal() || x < 0.0 {
        return None;
    }
    let significand = x.to_bits() & ((1 << 52) - 1) | 1 << 52;
    let odd = significand >> significand.trailing_zeros();
    Some((usize::try_from(odd).ok()?, x / odd as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_tells_where_it_is() {
        for dim in [(1, 1), (3, 43), (130, 127), (2, 9000)] {
            let coded = Coded::new(dim);
            let digits = coded.all();
            for (i, j) in [(0, 0), (dim.0 - 1, dim.1 - 1), (dim.0 / 2, dim.1 / 3)] {
                for factor in [1.0, 0.125, 64.0] {
                    let values: Vec<f64> = digits.iter().map(|digit| f64::from(digit[[i, j]]) * factor).collect();
                    assert_eq!(coded.read(&values), Read::One { at: (i, j), factor });
                }
            }
        }
        assert_eq!(
            [(1, 1), (1, 128), (1, 129), (128, 128), (128, 129)].map(|dim| Coded::new(dim).digits()),
            [1, 1, 2, 2, 3]
        );
    }

    #[test]
    fn what_is_no_element_is_told() {
        let coded = Coded::new((3, 100));
        assert_eq!(coded.read(&[0.0, 0.0]), Read::Nothing);
        for values in
            [[1.0, 2.0], [257.0, 1.0], [0.0, 1.0], [-1.0, 1.0], [f64::NAN, 1.0], [f64::INFINITY, 1.0], [255.0, 5.0]]
        {
            assert_eq!(coded.read(&values), Read::Mixed, "{values:?}");
        }
    }
}
