//! Block-sparse attention, as a means to fetch values of chosen blocks.

use half::bf16;
use ndarray::{Array2, s};
use optimized::device::Gpu;
use optimized::ops::attention::Cut;
use optimized::ops::block_sparse_attention::{Chosen, block_sparse_attention_cut};
use optimized::ops::qk_norm_rope::KeysValues;
use optimized::tensor::Matrix;
use reference::RoundingContract;
use reference::ops::attention::Attention;
use reference::ops::block_sparse_attention::{BlockSparseAttention, block_sparse_attention};
use reference::semantics::{KeyHead, MsaLayout, MsaMask, MsaOwn};
use tests::bounds::wide;

use super::fetch::{CUTS, Extent, Fetch};
use super::{ROWS, device};

/// Keys of a block, how many blocks a token has at most, and the groups that have a choice of their own: all, or one for all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Case {
    pub(super) extent: Extent,
    pub(super) block: usize,
    pub(super) top_k: usize,
    pub(super) choices: usize,
}

impl Case {
    /// Blocks of a query and a choice: the own one, and others that lie about evenly below it, begun elsewhere by each.
    fn blocks(&self, query: usize, choice: usize) -> Vec<usize> {
        let own = (self.extent.first + query) / self.block;
        let others = own.min(self.top_k - 1);
        let mut blocks: Vec<usize> =
            (0..others).map(|slot| (slot * own / others + query * 3 + choice * 5) % own).collect();
        // Neither up nor down.
        blocks.insert((query + choice) % (others + 1), own);
        blocks
    }

    fn chosen(&self) -> Array2<i32> {
        let Extent { n, .. } = self.extent;
        Array2::from_shape_fn((n * self.choices, self.top_k), |(row, slot)| {
            let block = self.blocks(row / self.choices, row % self.choices).get(slot).copied();
            block.map_or(-1, |block| i32::try_from(block).expect("few blocks"))
        })
    }
}

impl Fetch for Case {
    fn extent(&self) -> Extent {
        self.extent
    }

    fn asked(&self, query: usize, head: usize, turn: usize) -> (usize, usize) {
        let position = self.extent.first + query;
        let blocks = self.blocks(query, self.extent.group(head) % self.choices);
        let block = blocks[(query + head + turn) % blocks.len()];
        let keys = block * self.block..((block + 1) * self.block).min(position + 1);
        let key = match (query + head) % 3 {
            0 => keys.end - 1,
            1 => keys.start,
            _ => keys.start + (query * 29 + head * 17 + 5) % keys.len(),
        };
        let most = if turn == 0 { 0 } else { (query + head + turn) % 6 };
        let within = |bits: usize| key >> bits << bits >= keys.start && ((key >> bits) + 1) << bits <= keys.end;
        let left_out = (0..=most).rev().find(|&bits| within(bits)).expect("the key itself is within");
        (left_out, key >> left_out << left_out)
    }

    fn pass(
        &self,
        gpu: &Gpu,
        cut: Cut,
        from: usize,
        q: &Matrix<bf16>,
        kept: &KeysValues,
    ) -> Result<Matrix<bf16>, String> {
        let rows = from * self.choices..(from + q.dim().0) * self.choices;
        let blocks = gpu.upload(self.chosen().slice(s![rows, ..])).map_err(|error| error.to_string())?;
        let (chosen, layout) = (Chosen { blocks: &blocks, size: self.block }, self.extent.layout());
        let o = block_sparse_attention_cut(gpu, cut, &layout, q, self.extent.first + from, kept, chosen);
        o.map_err(|error| error.to_string())
    }

    fn reference(&self, q: &Array2<bf16>, k: &Array2<bf16>, v: &Array2<bf16>) -> Array2<f64> {
        let Extent { heads, d, n, .. } = self.extent;
        let p = BlockSparseAttention {
            attention: Attention::under(&RoundingContract::PARITY, heads, d),
            block: self.block,
            mask: MsaMask::Token,
            own: MsaOwn::Once,
            group: KeyHead::Grouped,
            layout: MsaLayout::TokenMajor,
            shift: None,
        };
        let of_choices = self.chosen();
        let chosen = Array2::from_shape_fn((n * heads.1, self.top_k), |(row, slot)| {
            let (query, group) = (row / heads.1, row % heads.1);
            usize::try_from(of_choices[[query * self.choices + group % self.choices, slot]]).ok()
        });
        block_sparse_attention(&p, wide(q).view(), wide(k).view(), wide(v).view(), chosen.view()).expect("shapes fit")
    }
}

/// Every count of rows, with heads, channels, tokens before and blocks that change from one to the next.
fn cases() -> impl Iterator<Item = Case> {
    let heads = [(6, 2), (1, 1), (4, 4), (17, 1), (32, 2)];
    let (channels, firsts) = ([16, 128, 24, 64], [0, 200, 1, 63, 300, 255, 511]);
    let blocks = [(16, 3), (128, 2), (5, 16), (64, 4), (70, 1), (1, 32)];
    let all = heads.into_iter().cycle().zip(channels.into_iter().cycle()).zip(firsts.into_iter().cycle());
    let all = ROWS.into_iter().zip(all).zip(blocks.into_iter().cycle()).enumerate();
    all.map(|(number, ((n, ((heads, d), first)), (block, top_k)))| {
        let choices = if number % 2 == 0 { heads.1 } else { 1 };
        Case { extent: Extent { heads, d, n, first }, block, top_k, choices }
    })
}

#[test]
fn what_queries_ask_for_is_fetched_in_every_cut() {
    let gpu = device();
    for case in cases() {
        for cut in CUTS {
            case.demand(&gpu, cut, case.extent.n).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

#[test]
fn what_queries_ask_for_is_fetched_in_passes() {
    let gpu = device();
    let extent = Extent { heads: (6, 2), d: 12, n: 70, first: 190 };
    let case = Case { extent, block: 24, top_k: 5, choices: 2 };
    for pass in [1, 3, 4, 5, 8, 64] {
        for cut in CUTS {
            case.demand(&gpu, cut, pass).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}
