//! Attention to blocks that are chosen.

use reference::config::Blocks;
use reference::ops::block_sparse_attention::{BlockSparseAttention, block_sparse_attention};
use reference::ops::indexer::{Indexer, block_max, boosted, choose};
use reference::semantics::{KeyHead, MsaLayout, MsaMask, MsaOwn, MsaSelect};
use reference::site::NONE;
use reference::{RoundingContract, Semantics};

use super::attention::{HEADS, KV_HEADS, SCALE, of_attention};
use super::made::Made;
use super::norms::IDEAL;
use super::operator::Operator;
use super::signature::{Number, Signature, flag, needed, or, port};
use crate::judge::legal::BLOCK;

const SIZE: Number = or("block", 128.0, "b: keys of a block");

pub(super) const INDEXER: Operator = Operator {
    signature: Signature {
        name: "indexer",
        equation: "m = max of q·kⱼ over a block's j ≤ i; blocks: the own and those of largest m, K together",
        inputs: &[port("q", "[n, heads · head_dim]"), port("k", "[s, head_dim]")],
        numbers: &[
            needed("heads", "the number of heads of q, each a group's"),
            SIZE,
            or("top_k", 16.0, "K: blocks that are chosen"),
            or("local", 1.0, "blocks that are chosen in any case, the own and those before"),
            or("init", 0.0, "the same from the first on"),
            flag("all_heads", "1 where all groups have the largest m of all heads"),
        ],
        outputs: &[
            port("m", "[n · heads, blocks], −∞ where nothing is seen"),
            port("blocks", "[n · heads, K], −1 for none"),
        ],
    },
    compute: |given| {
        let (q, k, heads) = (given.input("q")?, given.input("k")?, given.count("heads")?);
        let head_dim = k.value.ncols();
        let blocks = Blocks {
            size: given.count("block")?,
            top_k: given.count("top_k")?,
            local: given.count("local")?,
            init: given.count("init")?,
        };
        let msa_select = if given.flag("all_heads")? { MsaSelect::HeadMax } else { MsaSelect::PerGroup };
        let semantics = Semantics { msa_select, ..Semantics::RELEASED };
        let under =
            move |contract: &RoundingContract| Indexer::under(contract, &semantics, (heads, heads), head_dim, blocks);
        let ideal = under(IDEAL);
        let m = block_max(&ideal, q.view(), k.view())?;
        let forced = boosted(&ideal, m.view(), k.dim().0);
        let chosen = choose(&ideal, forced.view()).mapv(|block| block.unwrap_or(NONE));
        let (of, maxima) = ((q.clone(), k.clone()), m.clone());
        let of_m = move |contract: &RoundingContract, m: &_| under(contract).bound_block_max(&of.0, &of.1, m);
        let of_forced = move |contract: &RoundingContract, forced: &_| {
            let p = under(contract);
            p.bound_boosted(p.bound_block_max(&q, &k, &maxima), forced)
        };
        Ok(vec![Made::of("m", m, of_m), Made::of("blocks", forced, of_forced).choosing(BLOCK, chosen)])
    },
};

pub(super) const BLOCK_SPARSE_ATTENTION: Operator = Operator {
    signature: Signature {
        name: "block_sparse_attention",
        equation: "o = attention(q; k, v) over the j ≤ i in the blocks that are chosen for a token and its group",
        inputs: &[
            port("q", "[n, heads · head_dim]"),
            port("k", "[s, kv_heads · head_dim]"),
            port("v", "as k"),
            port("blocks", "[n · kv_heads, K], −1 for none"),
        ],
        numbers: &[HEADS, KV_HEADS, SIZE, SCALE],
        outputs: &[port("o", "as q")],
    },
    compute: |given| {
        let [q, k, v] = [given.input("q")?, given.input("k")?, given.input("v")?];
        let (chosen, block, attention) = (given.blocks("blocks")?, given.count("block")?, of_attention(given, &q)?);
        let under = move |contract: &RoundingContract| BlockSparseAttention {
            attention: attention(contract),
            block,
            mask: MsaMask::Token,
            own: MsaOwn::Once,
            group: KeyHead::Grouped,
            layout: MsaLayout::TokenMajor,
            shift: None,
        };
        // A block of no keys has no number of blocks.
        BlockSparseAttention::check_shapes(
            &under(IDEAL).attention,
            block,
            [q.dim(), k.dim(), v.dim()],
            chosen.nrows(),
        )?;
        let o = block_sparse_attention(&under(IDEAL), q.view(), k.view(), v.view(), chosen.view())?;
        Ok(vec![Made::of("o", o, move |contract, o| under(contract).bound(&q, &k, &v, chosen.view(), o))])
    },
};
