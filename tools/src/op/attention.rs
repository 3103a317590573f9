//! Rotation and attention.

use reference::ops::attention::{Attention, attention};
use reference::ops::lightning_attention::{LightningAttention, lightning_attention, slopes};
use reference::ops::rope::{Rope, RopeTable, rope, rope_table};
use reference::{RoundingContract, Tracked};

use super::made::Made;
use super::operator::Operator;
use super::signature::Signature;

const IDEAL: &RoundingContract = &RoundingContract::IDEAL;

pub(super) const ROPE: Operator = Operator {
    signature: Signature {
        name: "rope",
        equation: "channels i and i + r/2 of each head turn by t·θ^(−2i/r), for i < r/2; the others stay",
        inputs: &[("x", "[n, heads · head_dim], one row a position")],
        numbers: &[
            ("head_dim", Some(128.0), "channels of a head"),
            ("rotary_dim", Some(64.0), "r: channels that rotate"),
            ("theta", Some(5e6), "θ"),
            ("first", Some(0.0), "t of the first row"),
        ],
        outputs: &[("y", "as x")],
    },
    compute: |given, contract| {
        let (x, first) = (given.input("x")?, given.count("first")?);
        let own = Rope {
            head_dim: given.count("head_dim")?,
            rotary_dim: given.count("rotary_dim")?,
            theta: given.number("theta")?,
            ..Rope::default()
        };
        let (ideal, own) = (own.under(IDEAL), own.under(contract));
        let table = rope_table::<f64>(&ideal, first, x.value.nrows());
        let y = rope(&ideal, x.view(), table.cos.view(), table.sin.view()).map_err(reference::Error::from)?;
        let bounded = |part: Tracked<f64>| {
            let error = Some(own.table_bound(first, &part.value));
            Tracked { value: part.value, error }
        };
        let table = RopeTable { cos: bounded(table.cos), sin: bounded(table.sin) };
        let error = own.bound(&x, &table, &y);
        Ok(vec![Made::of("y", y, error)])
    },
};

pub(super) const ATTENTION: Operator = Operator {
    signature: Signature {
        name: "attention",
        equation: "o = Σⱼ softmax(σ·q·kⱼ)·vⱼ over j ≤ i, the last rows of q at the last of k; σ = 1/√head_dim",
        inputs: &[("q", "[n, heads · head_dim]"), ("k", "[s, kv_heads · head_dim]"), ("v", "as k")],
        numbers: &[
            ("heads", None, "the number of heads of q"),
            ("kv_heads", None, "the number of heads of k and v"),
            ("scale", Some(0.0), "σ, where it is another"),
            ("window", Some(0.0), "keys that a query sees at most; 0 for all"),
        ],
        outputs: &[("o", "as q")],
    },
    compute: |given, contract| {
        let [q, k, v] = [given.input("q")?, given.input("k")?, given.input("v")?];
        let (heads, groups) = (given.count("heads")?, given.count("kv_heads")?);
        let head_dim = q.value.ncols().checked_div(heads).unwrap_or(0);
        let (scale, window) = (given.number("scale")?, given.count("window")?);
        let under = |contract: &RoundingContract| {
            let own = Attention::under(contract, (heads, groups), head_dim);
            let scale = if scale == 0.0 { own.scale } else { scale };
            Attention { scale, window: (window > 0).then_some(window), ..own }.of_rows(q.value.nrows())
        };
        let o = attention(&under(IDEAL), q.view(), k.view(), v.view()).map_err(reference::Error::from)?;
        let error = under(contract).bound(&q, &k, &v, &o);
        Ok(vec![Made::of("o", o, error)])
    },
};

pub(super) const LIGHTNING_ATTENTION: Operator = Operator {
    signature: Signature {
        name: "lightning_attention",
        equation: "o = Σⱼ λ^(i−j)·(q·kⱼ)·vⱼ over j ≤ i, λ = e^(−s), s = 2^(−8(h+1)/H)·(1 − l/(L − 1 + 1e-5) + 1e-5)",
        inputs: &[("q", "[n, heads · head_dim]"), ("k", "as q"), ("v", "as q")],
        numbers: &[
            ("heads", None, "H: the number of heads"),
            ("layer", Some(0.0), "l"),
            ("layers", Some(0.0), "L; without, nothing decays"),
        ],
        outputs: &[("o", "as q")],
    },
    compute: |given, contract| {
        let [q, k, v] = [given.input("q")?, given.input("k")?, given.input("v")?];
        let (heads, layer, layers) = (given.count("heads")?, given.count("layer")?, given.count("layers")?);
        let head_dim = q.value.ncols().checked_div(heads).unwrap_or(0);
        let slopes = if layers == 0 { vec![0.0; heads] } else { slopes(heads, layer, layers) };
        let under = |contract: &RoundingContract| LightningAttention::under(contract, slopes.clone(), head_dim);
        let o = lightning_attention(&under(IDEAL), q.view(), k.view(), v.view()).map_err(reference::Error::from)?;
        let error = under(contract).bound(&q, &k, &v, &o);
        Ok(vec![Made::of("o", o, error)])
    },
};
