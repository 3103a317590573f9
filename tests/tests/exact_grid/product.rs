//! A product of matrices, looked into: where it is not exact, which factors it was made of.

use half::bf16;
use ndarray::Array2;
use tests::position::{Coded, Read};
use tests::values::Draw;

/// y \[n, m\] of x \[n, k\] and w \[m, k\], as a device or the reference computes it.
pub(super) type Product<'a> = dyn Fn(&Array2<bf16>, &Array2<bf16>) -> Array2<f64> + 'a;

/// n, m and k.
pub(super) type Shape = (usize, usize, usize);

/// Columns of k at which kernels cut it, and their neighbours.
const CUTS: [usize; 9] = [0, 7, 8, 15, 16, 63, 64, 511, 512];

/// A product to be exact.
pub(super) struct Grid<'a> {
    pub(super) shape: Shape,
    pub(super) device: &'a Product<'a>,
    pub(super) reference: &'a Product<'a>,
    /// The least and the largest of the whole numbers that it multiplies.
    pub(super) range: (i8, i8),
    /// Elements of y that are not computed are NaN in both.
    pub(super) made: &'a dyn Fn(usize, usize) -> bool,
}

impl Grid<'_> {
    /// Bit-equal on whole numbers, and each element of y made of the right rows at every cut of k. The error says which
    /// element is not, and what it is made of.
    pub(super) fn demand(&self, seed: u64) -> Result<(), String> {
        let (_, _, k) = self.shape;
        let stride = self.shape.0.max(self.shape.1);
        let shifts: Vec<usize> = match k.div_ceil(stride) {
            few @ ..4 => (0..few).map(|round| round * stride).collect(),
            _ => CUTS.into_iter().chain([k - 1]).filter(|&shift| shift < k).collect(),
        };
        self.whole_numbers(seed).map_err(|off| {
            let found = (0..k).find_map(|shift| self.one_by_one(shift).err());
            format!("{off}; {}", found.unwrap_or_else(|| "each product is right by itself".into()))
        })?;
        shifts.into_iter().try_for_each(|shift| self.one_by_one(shift))
    }

    fn whole_numbers(&self, seed: u64) -> Result<(), String> {
        let (n, m, k) = self.shape;
        let mut draw = Draw::new(seed);
        let choices = u64::try_from(i16::from(self.range.1) - i16::from(self.range.0) + 1).expect("a range");
        let mut whole = |dim| {
            Array2::from_shape_simple_fn(dim, || {
                let drawn = i16::try_from(draw.below(choices)).expect("few choices") + i16::from(self.range.0);
                bf16::from_f32(drawn.into())
            })
        };
        let (x, w) = (whole((n, k)), whole((m, k)));
        let (got, want) = ((self.device)(&x, &w), (self.reference)(&x, &w));
        for (at, (got, want)) in got.indexed_iter().map(|(at, got)| (at, (got, &want[at]))) {
            let made = (self.made)(at.0, at.1);
            if made && got.to_bits() != want.to_bits() {
                return Err(format!("y[{}, {}] = {got}, not {want}", at.0, at.1));
            }
        }
        Ok(())
    }

    /// Each element of y made of a single product, that of column `shift` plus its row; of the shorter side's rows, if
    /// that is x's.
    fn one_by_one(&self, shift: usize) -> Result<(), String> {
        let (n, m, k) = self.shape;
        if n >= m {
            let made = |i, j| (self.made)(i, j);
            return one_by_one((n, m, k), shift, ["x", "w"], &made, &self.device);
        }
        let turned = |w: &Array2<bf16>, x: &Array2<bf16>| (self.device)(x, w).reversed_axes();
        let made = |j, i| (self.made)(i, j);
        one_by_one((m, n, k), shift, ["w", "x"], &made, &turned)
    }
}

/// Row i of `a` is a power of two in one column, so that y\[i, j\] is one element of `b`, times that.
fn one_by_one(
    (n, m, k): Shape,
    shift: usize,
    [a, b]: [&str; 2],
    made: &dyn Fn(usize, usize) -> bool,
    product: &Product<'_>,
) -> Result<(), String> {
    let column = |i: usize| (i + shift) % k;
    let factor = |i: usize| 2.0_f64.powi(i32::try_from(i / k % 32).expect("below 32"));
    let left = Array2::from_shape_fn((n, k), |(i, c)| bf16::from_f64(if c == column(i) { factor(i) } else { 0.0 }));
    let coded = Coded::new((m, k));
    let digits: Vec<Array2<f64>> = coded.all().iter().map(|right| product(&left, right)).collect();
    for (i, j) in ndarray::indices((n, m)).into_iter().filter(|&(i, j)| made(i, j)) {
        let values: Vec<f64> = digits.iter().map(|digit| digit[[i, j]]).collect();
        let right = Read::One { at: (j, column(i)), factor: factor(i) };
        let read = coded.read(&values);
        if read != right {
            let of = |row: usize| format!("{a}[{row}, {}]", column(row));
            let is = match read {
                Read::Nothing => "nothing".to_owned(),
                Read::Mixed => format!("{values:?}, a mixture"),
                Read::One { at, factor: power } => {
                    let row = (0..n).find(|&row| column(row) == at.1 && factor(row) == power);
                    let from = row.map_or_else(|| format!("{power}"), of);
                    format!("{from}·{b}[{}, {}]", at.0, at.1)
                }
            };
            let place = if a == "x" { (i, j) } else { (j, i) };
            return Err(format!("y[{}, {}] is {is}, not {}·{b}[{j}, {}]", place.0, place.1, of(i), column(i)));
        }
    }
    Ok(())
}
