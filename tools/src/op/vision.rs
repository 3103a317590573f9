//! What the vision tower has of its own, and where its rows go.

use std::rc::Rc;

use reference::config::Patch;
use reference::grid::segments;
use reference::ops::axial_rope::{AxialRope, axial_rope};
use reference::ops::masked_scatter::{MaskedScatter, masked_scatter};
use reference::ops::mtp;
use reference::ops::patch_embedding::{PatchEmbedding, patch_embedding};
use reference::ops::patch_merge::{PatchMerge, patch_merge};
use reference::ops::vision_attention::{VisionAttention, vision_attention};
use reference::semantics::{
    AxialAxes, AxialOrder, AxialPair, ChunkTime, MergeOrder, MtpConcat, MtpFirstEmbedding, PatchOrder, VisionSpan,
};
use reference::{Rounding, RoundingContract};

use super::attention::SCALE;
use super::made::Made;
use super::norms::IDEAL;
use super::operator::Operator;
use super::signature::{Number, Port, Signature, flag, needed, or, port};

const GRIDS: Port = port("grids", "[images, 3], patches in time, height and width");
const SIDE: Number = or("side", 2.0, "patches to a side of a square that becomes one token");

pub(super) const PATCH_EMBEDDING: Operator = Operator {
    signature: Signature {
        name: "patch_embedding",
        equation: "y = x·wᵀ, columns of both by colour, frame, row and column",
        inputs: &[port("x", "[patches, C · T · P · P]"), port("w", "[m, C · T · P · P]")],
        numbers: &[
            or("channels", 3.0, "C: colours"),
            or("frames", 2.0, "T: frames of a patch"),
            or("pixels", 14.0, "P: rows, and columns, of a patch"),
        ],
        outputs: &[port("y", "[patches, m]")],
    },
    compute: |given| {
        let (x, w) = (given.input("x")?, given.weight("w")?);
        let (channels, frames, side) = (given.count("channels")?, given.count("frames")?, given.count("pixels")?);
        let patch = Patch { channels, frames, side };
        let under = move |contract: &RoundingContract| PatchEmbedding::under(contract, patch, PatchOrder::ColourFirst);
        let y = patch_embedding(&under(IDEAL), x.view(), &w)?;
        Ok(vec![Made::of("y", y, move |contract, y| under(contract).bound(&x, &w, y))])
    },
};

pub(super) const AXIAL_ROPE: Operator = Operator {
    signature: Signature {
        name: "axial_rope",
        equation: "cos, sin of [a, a], a = [t·f, h·f, w·f], fᵢ = θ^(−2i/m), m = 2·⌊⌊head_dim/3⌋/2⌋",
        inputs: &[GRIDS],
        numbers: &[needed("head_dim", "channels of a head"), or("theta", 1e4, "θ"), SIDE],
        outputs: &[port("cos", "[patches, 3m]"), port("sin", "[patches, 3m]")],
    },
    compute: |given| {
        let grids = Rc::new(given.grids("grids")?);
        let own = AxialRope {
            head_dim: given.count("head_dim")?,
            theta: given.number("theta")?,
            side: given.count("side")?,
            pair: AxialPair::Half,
            time: ChunkTime::Reset,
            order: AxialOrder::Merged,
            axes: AxialAxes::TimeHeightWidth,
            table: Rounding::NONE,
        };
        let table = axial_rope::<f64>(&own.under(IDEAL), &grids)?;
        let of = |name, value| {
            let grids = grids.clone();
            Made::of(name, value, move |contract, value| own.under(contract).bound(&grids, value))
        };
        Ok(vec![of("cos", table.cos.value), of("sin", table.sin.value)])
    },
};

pub(super) const VISION_ATTENTION: Operator = Operator {
    signature: Signature {
        name: "vision_attention",
        equation: "o = Σⱼ softmax(σ·q·kⱼ)·vⱼ over all j of the same image; σ = 1/√head_dim",
        inputs: &[port("q", "[patches, heads · head_dim]"), port("k", "as q"), port("v", "as q"), GRIDS],
        numbers: &[needed("heads", "the number of heads"), SCALE],
        outputs: &[port("o", "as q")],
    },
    compute: |given| {
        let [q, k, v] = [given.input("q")?, given.input("k")?, given.input("v")?];
        let (heads, scale, grids) = (given.count("heads")?, given.number_if("scale")?, given.grids("grids")?);
        reference::grid::require_patches(q.dim().0, &grids, "vision_attention C3", "rows of q")?;
        let (segments, head_dim) = (segments(&grids), q.value.ncols().checked_div(heads).unwrap_or(0));
        let under = move |contract: &RoundingContract| {
            VisionAttention::under(contract, heads, head_dim, VisionSpan::Segmented).scaled(scale)
        };
        let o = vision_attention(&under(IDEAL), q.view(), k.view(), v.view(), &segments)?;
        Ok(vec![Made::of("o", o, move |contract, o| under(contract).bound(&q, &k, &v, &segments, o))])
    },
};

pub(super) const PATCH_MERGE: Operator = Operator {
    signature: Signature {
        name: "patch_merge",
        equation: "y = the rows of the patches in a square, side by side",
        inputs: &[port("x", "[patches, d]"), GRIDS],
        numbers: &[SIDE],
        outputs: &[port("y", "[patches / side², side² · d]")],
    },
    compute: |given| {
        let (x, grids) = (given.input("x")?, given.grids("grids")?);
        let p = PatchMerge { side: given.count("side")?, order: MergeOrder::Block };
        let y = patch_merge(&p, x.view(), &grids)?;
        Ok(vec![Made::copied("y", y)])
    },
};

pub(super) const MASKED_SCATTER: Operator = Operator {
    signature: Signature {
        name: "masked_scatter",
        equation: "y = x, with the rows of f one after the other where the mask is 1",
        inputs: &[port("x", "[n, d]"), port("mask", "[n]"), port("f", "[marked, d]")],
        numbers: &[],
        outputs: &[port("y", "[n, d]")],
    },
    compute: |given| {
        let (x, marks, f) = (given.input("x")?, given.marks("mask")?, given.input("f")?);
        let y = masked_scatter(&MaskedScatter::under(IDEAL), x.view(), &marks, f.view())?;
        Ok(vec![Made::of("y", y, move |contract, _| MaskedScatter::under(contract).bound(&x, &marks, &f))])
    },
};

pub(super) const MTP: Operator = Operator {
    signature: Signature {
        name: "mtp",
        equation: "y = [e; h] side by side, e of position 0 taken as 0",
        inputs: &[port("e", "[n, H]"), port("h", "[n, H]")],
        numbers: &[or("first", 0.0, "the position of the first row"), flag("hidden_first", "1 for [h; e]")],
        outputs: &[port("y", "[n, 2 · H]")],
    },
    compute: |given| {
        let e = mtp::embedded(MtpFirstEmbedding::Zeroed, given.input("e")?, given.count("first")?);
        let order = if given.flag("hidden_first")? { MtpConcat::HiddenFirst } else { MtpConcat::EmbeddingFirst };
        Ok(vec![Made::stored("y", mtp::concatenated(order, &e, &given.input("h")?)?.value)])
    },
};
