//! Attention as a means to fetch values.
//!
//! A key is its own number and its group's in binary, as signs; a query asks for one number with large ones. All other
//! weights underflow to 0, so what comes out is a value, to the bit, and values tell where they are. A query that leaves
//! out the lowest bits asks for 2ᵗ keys with equal scores, whose mean is exact, however tiles and groups are merged.

use half::bf16;
use ndarray::{Array2, s};
use optimized::device::Gpu;
use optimized::ops::HeadLayout;
use optimized::ops::attention::{Cut, attention_cut};
use optimized::ops::qk_norm_rope::KeysValues;
use reference::RoundingContract;
use reference::ops::attention::{Attention, attention};
use tests::bounds::wide;
use tests::position::{Coded, Read};
use tests::values::whole_numbers;

use super::{ROWS, device};

/// A query's ones: one wrong bit of a key is then worth more than f32's range of exponents.
const LOUD: f32 = 2048.0;

/// Heads, groups, channels; queries, and tokens before them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) heads: (usize, usize),
    pub(super) d: usize,
    pub(super) n: usize,
    pub(super) first: usize,
}

impl Case {
    fn all(&self) -> usize {
        self.first + self.n
    }

    fn group(&self, head: usize) -> usize {
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

    fn keys(&self) -> Array2<bf16> {
        let sign = |(j, c): (usize, usize)| bf16::from_f32(self.sign(j, c / self.d, c % self.d));
        Array2::from_shape_fn((self.all(), self.heads.1 * self.d), sign)
    }

    /// Bits that a query leaves out, and the key that it asks for.
    fn asked(&self, query: usize, head: usize, turn: usize) -> (usize, usize) {
        let seen = self.first + query + 1;
        let most = seen.ilog2() as usize;
        let left_out = if turn == 0 { 0 } else { most - (query + head + turn) % (most + 1) };
        let blocks = seen >> left_out;
        // The query's own key is asked for by every third head or so, the first one by another.
        let block = match (query + head) % 3 {
            0 => blocks - 1,
            1 => 0,
            _ => (query * 29 + head * 17 + 5) % blocks,
        };
        (left_out, block << left_out)
    }

    fn queries(&self, turn: usize) -> Array2<bf16> {
        let (of_key, of_group) = self.bits();
        Array2::from_shape_fn((self.n, self.heads.0 * self.d), |(i, c)| {
            let (head, channel) = (c / self.d, c % self.d);
            let (left_out, key) = self.asked(i, head, turn);
            let asks = (left_out..of_key + of_group).contains(&channel);
            bf16::from_f32(if asks { LOUD * self.sign(key, self.group(head), channel) } else { 0.0 })
        })
    }

    fn layout(&self) -> HeadLayout {
        HeadLayout::new(self.heads.0, self.heads.1, self.d).expect("groups divide heads")
    }

    /// o of q, k and v on the device, in passes of at most so many queries.
    fn on(&self, gpu: &Gpu, cut: Cut, pass: usize, [q, k, v]: [&Array2<bf16>; 3]) -> Array2<f64> {
        let layout = self.layout();
        let upload = |x: &Array2<bf16>| gpu.upload(self.padded(x).view()).expect("memory");
        let kept = KeysValues { keys: upload(k), values: upload(v) };
        let mut o = Array2::zeros(q.dim());
        for from in (0..self.n).step_by(pass) {
            let rows = s![from..(from + pass).min(self.n), ..];
            let q = upload(&q.slice(rows).to_owned());
            let part = attention_cut(gpu, cut, &layout, &q, self.first + from, &kept);
            let part = part.and_then(|o| gpu.download(&o)).unwrap_or_else(|error| panic!("{self:?} {cut:?}: {error}"));
            o.slice_mut(rows).assign(&part.mapv(f64::from));
        }
        o
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

    fn reference(&self, [q, k, v]: [&Array2<bf16>; 3]) -> Array2<f64> {
        let p = Attention::under(&RoundingContract::FUSED, self.heads, self.d);
        attention(&p, wide(q).view(), wide(k).view(), wide(v).view()).expect("shapes fit")
    }

    /// Bit-equal to the reference where each query fetches one value, and where it takes the mean of many.
    pub(super) fn demand(&self, gpu: &Gpu, cut: Cut, pass: usize) -> Result<(), String> {
        let what = |error| format!("{cut:?} {self:?} in passes of {pass}: {error}");
        self.fetched(gpu, cut, pass).map_err(what)?;
        let (k, v) = (self.keys(), whole_numbers(7, (self.all(), self.heads.1 * self.d), 100));
        for turn in 1..3 {
            let q = self.queries(turn);
            let (got, want) = (self.on(gpu, cut, pass, [&q, &k, &v]), self.reference([&q, &k, &v]));
            let mut unequal = got.indexed_iter().filter(|(at, got)| got.to_bits() != want[*at].to_bits());
            if let Some(((i, c), got)) = unequal.next() {
                let (left_out, key) = self.asked(i, c / self.d, turn);
                let (place, want, count) = (self.place("o", (i, c)), want[[i, c]], 1 << left_out);
                return Err(what(format!("{place} = {got}, not {want}, the mean of {count} keys from {key} on")));
            }
        }
        Ok(())
    }

    fn fetched(&self, gpu: &Gpu, cut: Cut, pass: usize) -> Result<(), String> {
        let (q, k) = (self.queries(0), self.keys());
        let coded = Coded::new((self.all(), self.heads.1 * self.d));
        let run = |v: &Array2<bf16>| (self.on(gpu, cut, pass, [&q, &k, v]), self.reference([&q, &k, v]));
        let (got, want): (Vec<_>, Vec<_>) = coded.all().iter().map(run).unzip();
        for (i, c) in ndarray::indices(q.dim()) {
            let values = |of: &[Array2<f64>]| of.iter().map(|digit| digit[[i, c]]).collect::<Vec<_>>();
            let (got, want) = (values(&got), values(&want));
            let (head, channel) = (c / self.d, c % self.d);
            let right = (self.asked(i, head, 0).1, self.group(head) * self.d + channel);
            assert_eq!(coded.read(&want), Read::One { at: right, factor: 1.0 }, "the reference fetches: {self:?}");
            if got != want {
                let is = match coded.read(&got) {
                    Read::One { at, factor: 1.0 } => self.place("v", at),
                    Read::Nothing => "nothing".into(),
                    _ => format!("{got:?}, a mixture"),
                };
                return Err(format!("{} is {is}, not {}", self.place("o", (i, c)), self.place("v", right)));
            }
        }
        Ok(())
    }

    /// Row, head or group, and channel.
    fn place(&self, of: &str, (row, column): (usize, usize)) -> String {
        format!("{of}[{row}, {}, {}]", column / self.d, column % self.d)
    }
}

const CUTS: [Cut; 2] = [Cut::Queries, Cut::Keys];

/// Every count of rows, with heads, channels and tokens before that change from one to the next.
fn cases() -> impl Iterator<Item = Case> {
    let heads = [(6, 2), (1, 1), (4, 4), (17, 1), (5, 1)];
    let (channels, firsts) = ([16, 128, 24, 64], [0, 200, 1, 63, 300, 255, 511]);
    let all = heads.into_iter().cycle().zip(channels.into_iter().cycle()).zip(firsts.into_iter().cycle());
    ROWS.into_iter().chain(ROWS).zip(all).map(|(n, ((heads, d), first))| Case { heads, d, n, first })
}

#[test]
fn what_queries_ask_for_is_fetched_in_every_cut() {
    let gpu = device();
    for case in cases() {
        for cut in CUTS {
            case.demand(&gpu, cut, case.n).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

#[test]
fn what_queries_ask_for_is_fetched_in_passes() {
    let gpu = device();
    let case = Case { heads: (6, 2), d: 12, n: 70, first: 190 };
    for pass in [1, 7, 8, 9, 16, 63, 64, 65] {
        for cut in CUTS {
            case.demand(&gpu, cut, pass).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

/// A query is exact beside queries that are not numbers.
#[test]
fn queries_beside_one_do_not_matter() {
    let (gpu, case) = (device(), Case { heads: (6, 2), d: 24, n: 66, first: 100 });
    let (q, k, v) = (case.queries(1), case.keys(), whole_numbers(3, (case.all(), 48), 100));
    let want = case.reference([&q, &k, &v]);
    for row in [0, 15, 16, 64, 65] {
        let mut beside = Array2::from_elem(q.dim(), bf16::NAN);
        beside.row_mut(row).assign(&q.row(row));
        for cut in CUTS {
            let got = case.on(&gpu, cut, case.n, [&beside, &k, &v]);
            assert_eq!(got.row(row), want.row(row), "{cut:?} query {row}");
        }
    }
}
