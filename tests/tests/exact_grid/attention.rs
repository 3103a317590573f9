//! Attention, as a means to fetch values.

use half::bf16;
use ndarray::Array2;
use optimized::device::Gpu;
use optimized::ops::attention::{Cut, attention_cut};
use optimized::ops::qk_norm_rope::KeysValues;
use optimized::tensor::Matrix;
use reference::RoundingContract;
use reference::ops::attention::{Attention, attention};
use tests::bounds::wide;
use tests::values::whole_numbers;

use super::fetch::{CUTS, Extent, Fetch};
use super::{ROWS, device};

/// To all keys before a query and its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case(pub(super) Extent);

impl Fetch for Case {
    fn extent(&self) -> Extent {
        self.0
    }

    fn asked(&self, query: usize, head: usize, turn: usize) -> (usize, usize) {
        let seen = self.0.first + query + 1;
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

    fn pass(
        &self,
        gpu: &Gpu,
        cut: Cut,
        from: usize,
        q: &Matrix<bf16>,
        kept: &KeysValues,
    ) -> Result<Matrix<bf16>, String> {
        let o = attention_cut(gpu, cut, &self.0.layout(), q, self.0.first + from, kept);
        o.map_err(|error| error.to_string())
    }

    fn reference(&self, q: &Array2<bf16>, k: &Array2<bf16>, v: &Array2<bf16>) -> Array2<f64> {
        let p = Attention::under(&RoundingContract::PARITY, self.0.heads, self.0.d);
        attention(&p, wide(q).view(), wide(k).view(), wide(v).view()).expect("shapes fit")
    }
}

/// Every count of rows, with heads, channels and tokens before that change from one to the next.
fn cases() -> impl Iterator<Item = Case> {
    let heads = [(6, 2), (1, 1), (4, 4), (17, 1), (5, 1)];
    let (channels, firsts) = ([16, 128, 24, 64], [0, 200, 1, 63, 300, 255, 511]);
    let all = heads.into_iter().cycle().zip(channels.into_iter().cycle()).zip(firsts.into_iter().cycle());
    ROWS.into_iter().chain(ROWS).zip(all).map(|(n, ((heads, d), first))| Case(Extent { heads, d, n, first }))
}

#[test]
fn what_queries_ask_for_is_fetched_in_every_cut() {
    let gpu = device();
    for case in cases() {
        for cut in CUTS {
            case.demand(&gpu, cut, case.0.n).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

#[test]
fn what_queries_ask_for_is_fetched_in_passes() {
    let gpu = device();
    let case = Case(Extent { heads: (6, 2), d: 12, n: 70, first: 190 });
    for pass in [1, 7, 8, 9, 16, 63, 64, 65] {
        for cut in CUTS {
            case.demand(&gpu, cut, pass).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

/// A query is exact beside queries that are not numbers.
#[test]
fn queries_beside_one_do_not_matter() {
    let (gpu, case) = (device(), Case(Extent { heads: (6, 2), d: 24, n: 66, first: 100 }));
    let (q, k, v) = (case.queries(1), case.0.keys(), whole_numbers(3, (case.0.all(), 48), 100));
    let want = case.reference(&q, &k, &v);
    for row in [0, 15, 16, 64, 65] {
        let mut beside = Array2::from_elem(q.dim(), bf16::NAN);
        beside.row_mut(row).assign(&q.row(row));
        for cut in CUTS {
            let got = case.on(&gpu, cut, case.0.n, [&beside, &k, &v]);
            assert_eq!(got.row(row), want.row(row), "{cut:?} query {row}");
        }
    }
}
