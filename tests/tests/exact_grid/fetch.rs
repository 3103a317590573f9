//! Attention as a means to fetch values.
//!
//! A key is its own number and its group's in binary, as signs; a query asks for one number with large ones. All other
//! weights underflow to 0, so what comes out is a value, to the bit, and values tell where they are. A query that leaves
//! out the lowest bits asks for 2ᵗ keys with equal scores, whose mean is exact, however tiles and groups are merged.

use std::fmt::Debug;

use half::bf16;
use ndarray::{Array2, s};
use optimized::device::Gpu;
use optimized::ops::HeadLayout;
use optimized::ops::attention::Cut;
use optimized::ops::qk_norm_rope::KeysValues;
use optimized::tensor::Matrix;
use tests::position::{Coded, Read};
use tests::values::whole_numbers;

/// A query's ones: one wrong bit of a key is then worth more than f32's range of exponents.
const LOUD: f32 = 2048.0;

pub(super) const CUTS: [Cut; 2] = [Cut::Queries, Cut::Keys];

/// Heads, groups, channels; queries, and tokens before them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    pub(super) heads: (usize, usize),
    pub(super) d: usize,
    pub(super) n: usize,
    pub(super) first: usize,
}

impl Extent {
    pub(super) fn all(&self) -> usize {
        self.first + self.n
    }

    pub(super) fn group(&self, head: usize) -> usize {
        head / (self.heads.0 / self.heads.1)
    }

    /// Bits of a key's number, and of its group's.
    fn bits(&self) -> (usize, usize) {
        let bits = |count: usize| (usize::BITS - (count - 1).leading_zeros()) as usize;
        (bits(self.all()), bits(self.heads.1))
    }

    /// A sign: of a bit of the key's number, then of its group's, then of no meaning.
    fn sign(&self, key: usize, group: usize, channel: usize) -> f32 {
        let (of_key, of_group) = self.bits();
        assert!(of_key + of_group <= self.d, "{self:?}: there are more keys than signs");
        let bit = match channel {
            c if c < of_key => key >> c & 1,
            c if c < of_key + of_group => group >> (c - of_key) & 1,
            c => (key * 31 + c * 7) % 5 % 2,
        };
        if bit == 1 { 1.0 } else { -1.0 }
    }

    pub(super) fn keys(&self) -> Array2<bf16> {
        let sign = |(j, c): (usize, usize)| bf16::from_f32(self.sign(j, c / self.d, c % self.d));
        Array2::from_shape_fn((self.all(), self.heads.1 * self.d), sign)
    }

    pub(super) fn layout(&self) -> HeadLayout {
        HeadLayout::new(self.heads.0, self.heads.1, self.d).expect("groups divide heads")
    }

    /// Heads of d channels, each padded.
    fn padded(&self, x: &Array2<bf16>) -> Array2<bf16> {
        let wide = self.layout().padded();
        let mut y = Array2::from_elem((x.nrows(), x.ncols() / self.d * wide), bf16::ZERO);
        for ((i, j), &value) in x.indexed_iter() {
            y[[i, j / self.d * wide + j % self.d]] = value;
        }
        y
    }

    /// Row, head or group, and channel.
    fn place(&self, of: &str, (row, column): (usize, usize)) -> String {
        format!("{of}[{row}, {}, {}]", column / self.d, column % self.d)
    }
}

/// An attention that is tried.
pub(super) trait Fetch: Debug {
    fn extent(&self) -> Extent;

    /// Bits that a query leaves out, and the first key that it asks for.
    fn asked(&self, query: usize, head: usize, turn: usize) -> (usize, usize);

    /// o on the device of queries from `from` on.
    fn pass(
        &self,
        gpu: &Gpu,
        cut: Cut,
        from: usize,
        q: &Matrix<bf16>,
        kept: &KeysValues,
    ) -> Result<Matrix<bf16>, String>;

    fn reference(&self, q: &Array2<bf16>, k: &Array2<bf16>, v: &Array2<bf16>) -> Array2<f64>;

    fn queries(&self, turn: usize) -> Array2<bf16> {
        let extent = self.extent();
        let (of_key, of_group) = extent.bits();
        Array2::from_shape_fn((extent.n, extent.heads.0 * extent.d), |(i, c)| {
            let (head, channel) = (c / extent.d, c % extent.d);
            let (left_out, key) = self.asked(i, head, turn);
            let asks = (left_out..of_key + of_group).contains(&channel);
            bf16::from_f32(if asks { LOUD * extent.sign(key, extent.group(head), channel) } else { 0.0 })
        })
    }

    /// o of q, k and v on the device, in passes of at most so many queries.
    fn on(&self, gpu: &Gpu, cut: Cut, pass: usize, [q, k, v]: [&Array2<bf16>; 3]) -> Array2<f64> {
        let extent = self.extent();
        let upload = |x: &Array2<bf16>| gpu.upload(extent.padded(x).view()).expect("memory");
        let kept = KeysValues { keys: upload(k), values: upload(v) };
        let mut o = Array2::zeros(q.dim());
        for from in (0..extent.n).step_by(pass) {
            let rows = s![from..(from + pass).min(extent.n), ..];
            let q = upload(&q.slice(rows).to_owned());
            let part = self.pass(gpu, cut, from, &q, &kept).unwrap_or_else(|error| panic!("{self:?} {cut:?}: {error}"));
            o.slice_mut(rows).assign(&gpu.download(&part).expect("memory").mapv(f64::from));
        }
        o
    }

    /// Bit-equal to the reference where each query fetches one value, and where it takes the mean of many.
    fn demand(&self, gpu: &Gpu, cut: Cut, pass: usize) -> Result<(), String> {
        let extent = self.extent();
        let what = |error| format!("{cut:?} {self:?} in passes of {pass}: {error}");
        self.fetched(gpu, cut, pass).map_err(what)?;
        let (k, v) = (extent.keys(), whole_numbers(7, (extent.all(), extent.heads.1 * extent.d), 100));
        for turn in 1..3 {
            let q = self.queries(turn);
            let (got, want) = (self.on(gpu, cut, pass, [&q, &k, &v]), self.reference(&q, &k, &v));
            let mut unequal = got.indexed_iter().filter(|(at, got)| got.to_bits() != want[*at].to_bits());
            if let Some(((i, c), got)) = unequal.next() {
                let (left_out, key) = self.asked(i, c / extent.d, turn);
                let (place, want, count) = (extent.place("o", (i, c)), want[[i, c]], 1 << left_out);
                return Err(what(format!("{place} = {got}, not {want}, the mean of {count} keys from {key} on")));
            }
        }
        Ok(())
    }

    fn fetched(&self, gpu: &Gpu, cut: Cut, pass: usize) -> Result<(), String> {
        let extent = self.extent();
        let (q, k) = (self.queries(0), extent.keys());
        let coded = Coded::new((extent.all(), extent.heads.1 * extent.d));
        let run = |v: &Array2<bf16>| (self.on(gpu, cut, pass, [&q, &k, v]), self.reference(&q, &k, v));
        let (got, want): (Vec<_>, Vec<_>) = coded.all().iter().map(run).unzip();
        for (i, c) in ndarray::indices(q.dim()) {
            let values = |of: &[Array2<f64>]| of.iter().map(|digit| digit[[i, c]]).collect::<Vec<_>>();
            let (got, want) = (values(&got), values(&want));
            let (head, channel) = (c / extent.d, c % extent.d);
            let right = (self.asked(i, head, 0).1, extent.group(head) * extent.d + channel);
            assert_eq!(coded.read(&want), Read::One { at: right, factor: 1.0 }, "the reference fetches: {self:?}");
            if got != want {
                let is = match coded.read(&got) {
                    Read::One { at, factor: 1.0 } => extent.place("v", at),
                    Read::Nothing => "nothing".into(),
                    _ if got.iter().any(|x| x.is_nan()) => "not a number".into(),
                    _ => format!("{got:?}, a mixture"),
                };
                return Err(format!("{} is {is}, not {}", extent.place("o", (i, c)), extent.place("v", right)));
            }
        }
        Ok(())
    }
}
