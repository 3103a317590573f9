//! Rotation and attention.

use ndarray::Array2;
use reference::ops::attention::{Attention, attention};
use reference::ops::gated_lightning::{GatedLightning, LightningWeights, gated_lightning};
use reference::ops::hybrid_attention::{HybridAttention, hybrid_attention};
use reference::ops::kv_cache::KvCache;
use reference::ops::lightning_attention::{LightningAttention, lightning_attention, slopes};
use reference::ops::qk_norm_rope::{Heads, QkNormRope, qk_norm_rope};
use reference::ops::rope::{Rope, RopeTable, rope, rope_table};
use reference::{RoundingContract, Tracked};

use super::given::Given;
use super::made::Made;
use super::norms::{EPS, IDEAL, ONE_PLUS, OUTSIDE, PER_HEAD, of_heads};
use super::operator::Operator;
use super::signature::{Number, Signature, if_given, needed, optional, or, port};
use crate::failure::Failure;

pub(super) const HEADS: Number = needed("heads", "the number of heads of q");
pub(super) const KV_HEADS: Number = needed("kv_heads", "the number of heads of k and v");
pub(super) const SCALE: Number = if_given("scale", "σ, where it is another");
const ROTARY_DIM: Number = or("rotary_dim", 64.0, "r: channels that rotate");
const THETA: Number = or("theta", 5e6, "θ");
/// Of lightning attention.
const DECAYING: [Number; 3] = [
    needed("heads", "H: the number of heads"),
    or("layer", 0.0, "l"),
    if_given("layers", "L; without, nothing decays"),
];
const FIRST: Number = or("first", 0.0, "t of the first row");

pub(super) const ROPE: Operator = Operator {
    signature: Signature {
        name: "rope",
        equation: "channels i and i + r/2 of each head turn by t·θ^(−2i/r), for i < r/2; the others stay",
        inputs: &[port("x", "[n, heads · head_dim], one row a position")],
        numbers: &[or("head_dim", 128.0, "channels of a head"), ROTARY_DIM, THETA, FIRST],
        outputs: &[port("y", "as x")],
    },
    compute: |given| {
        let x = given.input("x")?;
        let turning = Turning::of(given, given.count("head_dim")?, x.dim().0)?;
        let y = rope(&turning.rope.under(IDEAL), x.view(), turning.table.cos.view(), turning.table.sin.view())?;
        let bound = move |contract: &RoundingContract, y: &_| {
            let table = turning.bounded(contract);
            turning.rope.under(contract).bound(&x, &table, y)
        };
        Ok(vec![Made::of("y", y, bound)])
    },
};

pub(super) const QK_NORM_ROPE: Operator = Operator {
    signature: Signature {
        name: "qk_norm_rope",
        equation: "q = rope(qk_norm(x's q; w)), k = rope(qk_norm(x's k; u)), v as it is",
        inputs: &[
            port("x", "[n, (heads + 2 · kv_heads) · head_dim], q, k and v side by side"),
            port("w", "[heads · head_dim], or [head_dim]"),
            port("u", "[kv_heads · head_dim], or [head_dim]"),
        ],
        numbers: &[HEADS, KV_HEADS, EPS, ONE_PLUS, OUTSIDE, PER_HEAD, ROTARY_DIM, THETA, FIRST],
        outputs: &[port("q", "[n, heads · head_dim]"), port("k", "[n, kv_heads · head_dim]"), port("v", "as k")],
    },
    compute: |given| {
        let (x, w, u) = (given.input("x")?, given.row("w")?, given.row("u")?);
        let (query_heads, key_heads) = (given.count("heads")?, given.count("kv_heads")?);
        let head_dim = x.value.ncols().checked_div(query_heads + 2 * key_heads).unwrap_or(0);
        let turning = Turning::of(given, head_dim, x.dim().0)?;
        let own = QkNormRope { query_heads, key_heads, norm: of_heads(given, head_dim)?, rope: turning.rope };
        let heads = qk_norm_rope(&own.under(IDEAL), x.view(), [w.view(), u.view()], &turning.table)?;
        let Heads { queries, keys, values } = heads.clone();
        let bounds = std::rc::Rc::new(move |contract: &RoundingContract| {
            let table = turning.bounded(contract);
            own.under(contract).bound(&x, [w.view(), u.view()], &table, &heads).expect("as they were made")
        });
        let of = |place: usize| {
            let bounds = bounds.clone();
            move |contract: &RoundingContract, _: &Array2<f64>| bounds(contract)[place].clone()
        };
        Ok(vec![Made::of("q", queries, of(0)), Made::of("k", keys, of(1)), Made::copied("v", values)])
    },
};

pub(super) const ATTENTION: Operator = Operator {
    signature: Signature {
        name: "attention",
        equation: "o = Σⱼ softmax(σ·q·kⱼ)·vⱼ over j ≤ i, the last rows of q at the last of k; σ = 1/√head_dim",
        inputs: &[port("q", "[n, heads · head_dim]"), port("k", "[s, kv_heads · head_dim]"), port("v", "as k")],
        numbers: &[HEADS, KV_HEADS, SCALE, if_given("window", "keys that a query sees at most")],
        outputs: &[port("o", "as q")],
    },
    compute: |given| {
        let [q, k, v] = [given.input("q")?, given.input("k")?, given.input("v")?];
        let (under, window) = (of_attention(given, &q)?, given.count_if("window")?);
        let under = move |contract: &RoundingContract| Attention { window, ..under(contract) };
        let o = attention(&under(IDEAL), q.view(), k.view(), v.view())?;
        Ok(vec![Made::of("o", o, move |contract, o| under(contract).bound(&q, &k, &v, o))])
    },
};

pub(super) const LIGHTNING_ATTENTION: Operator = Operator {
    signature: Signature {
        name: "lightning_attention",
        equation: "o = Σⱼ λ^(i−j)·(q·kⱼ)·vⱼ over j ≤ i, λ = e^(−s), s = 2^(−8(h+1)/H)·(1 − l/(L − 1 + 1e-5) + 1e-5)",
        inputs: &[port("q", "[n, heads · head_dim]"), port("k", "as q"), port("v", "as q")],
        numbers: &DECAYING,
        outputs: &[port("o", "as q")],
    },
    compute: |given| {
        let [q, k, v] = [given.input("q")?, given.input("k")?, given.input("v")?];
        let slopes = slopes_of(given)?;
        let head_dim = q.value.ncols().checked_div(slopes.len()).unwrap_or(0);
        let under = move |contract: &RoundingContract| LightningAttention::under(contract, slopes.clone(), head_dim);
        let o = lightning_attention(&under(IDEAL), q.view(), k.view(), v.view())?;
        Ok(vec![Made::of("o", o, move |contract, o| under(contract).bound(&q, &k, &v, o))])
    },
};

pub(super) const GATED_LIGHTNING: Operator = Operator {
    signature: Signature {
        name: "gated_lightning",
        equation: "y = out·(σ(gate·x) · rms_norm(lightning_attention(q, k, v); norm)), q, k, v = silu(qkv·x), head by head",
        inputs: &[
            port("x", "[n, m]"),
            port("qkv", "[3 · heads · head_dim, m], a head's q, k and v side by side"),
            port("norm", "[heads · head_dim]"),
            port("gate", "[heads · head_dim, m]"),
            port("out", "[m, heads · head_dim]"),
        ],
        numbers: &[DECAYING[0], DECAYING[1], DECAYING[2], EPS],
        outputs: &[port("y", "as x")],
    },
    compute: |given| {
        let (x, norm, slopes, eps) = (given.input("x")?, given.row("norm")?, slopes_of(given)?, given.number("eps")?);
        let [qkv, gate, out] = [given.weight("qkv")?, given.weight("gate")?, given.weight("out")?];
        let head_dim = norm.len().checked_div(slopes.len()).unwrap_or(0);
        let under = move |contract: &RoundingContract| GatedLightning::under(contract, slopes.clone(), head_dim, eps);
        let weights = LightningWeights { qkv: qkv.view(), norm: norm.view(), gate: gate.view(), out: out.view() };
        let y = gated_lightning(&under(IDEAL), x.view(), &weights)?;
        let bound = move |contract: &RoundingContract, y: &Array2<f64>| {
            let weights = LightningWeights { qkv: qkv.view(), norm: norm.view(), gate: gate.view(), out: out.view() };
            under(contract).bound(&x, &weights, y).expect("as y was made")
        };
        Ok(vec![Made::of("y", y, bound)])
    },
};

/// sₕ of the heads, layer and layers that are given.
fn slopes_of(given: &Given) -> Result<Vec<f64>, Failure> {
    let (heads, layer) = (given.count("heads")?, given.count("layer")?);
    match given.count_if("layers")? {
        Some(layers) if layer < layers => Ok(slopes(heads, layer, layers)),
        Some(layers) => Err(Failure::new(format!("lightning_attention: layer is {layer}, expected below {layers}"))
            .help("layers are numbered from 0 on")),
        None => Ok(vec![0.0; heads]),
    }
}

pub(super) const HYBRID_ATTENTION: Operator = Operator {
    signature: Signature {
        name: "hybrid_attention",
        equation: "o = attention over i − window < j ≤ i for the first local heads, over j ≤ i for the others",
        inputs: &[port("q", "[n, heads · head_dim]"), port("k", "[s, kv_heads · head_dim]"), port("v", "as k")],
        numbers: &[
            HEADS,
            KV_HEADS,
            needed("local", "heads of q that see a window, whole groups of those that share keys"),
            needed("window", "keys that these see at most"),
            SCALE,
        ],
        outputs: &[port("o", "as q")],
    },
    compute: |given| {
        let [q, k, v] = [given.input("q")?, given.input("k")?, given.input("v")?];
        let (full, local_heads, window) = (of_attention(given, &q)?, given.count("local")?, given.count("window")?);
        let under = move |contract: &RoundingContract| HybridAttention { full: full(contract), local_heads, window };
        let o = hybrid_attention(&under(IDEAL), q.view(), k.view(), v.view())?;
        Ok(vec![Made::of("o", o, move |contract, o| under(contract).bound(&q, &k, &v, o))])
    },
};

pub(super) const KV_CACHE: Operator = Operator {
    signature: Signature {
        name: "kv_cache",
        equation: "keys = [kept_k; k], values = [kept_v; v]",
        inputs: &[
            port("k", "[n, kv_heads · head_dim]"),
            port("v", "as k"),
            optional("kept_k", "[s, kv_heads · head_dim]"),
            optional("kept_v", "as kept_k"),
        ],
        numbers: &[],
        outputs: &[port("keys", "[s + n, kv_heads · head_dim]"), port("values", "as keys")],
    },
    compute: |given| {
        let mut cache = KvCache::new(1);
        if let Some(kept) = given.input_if("kept_k")? {
            cache.append(0, &kept, &given.input("kept_v")?)?;
        }
        let (keys, values) = cache.append(0, &given.input("k")?, &given.input("v")?)?;
        Ok(vec![Made::stored("keys", keys.value.clone()), Made::stored("values", values.value.clone())])
    },
};

/// A rotation, and its table.
struct Turning {
    rope: Rope,
    first: usize,
    table: RopeTable<f64>,
}

impl Turning {
    fn of(given: &Given, head_dim: usize, n: usize) -> Result<Self, Failure> {
        let (rotary_dim, theta, first) = (given.count("rotary_dim")?, given.number("theta")?, given.count("first")?);
        let rope = Rope { head_dim, rotary_dim, theta, ..Rope::default() };
        Ok(Turning { rope, first, table: rope_table(&rope.under(IDEAL), first, n) })
    }

    /// The table, with how far another's may be from it.
    fn bounded(&self, contract: &RoundingContract) -> RopeTable<f64> {
        let own = self.rope.under(contract);
        let of = |part: &Tracked<f64>| {
            let error = Some(own.table_bound(self.first, &part.value));
            Tracked { value: part.value.clone(), error }
        };
        RopeTable { cos: of(&self.table.cos), sin: of(&self.table.sin) }
    }
}

/// Attention of the heads and with the scale that are given.
pub(super) fn of_attention(
    given: &Given,
    q: &Tracked<f64>,
) -> Result<impl Fn(&RoundingContract) -> Attention + Clone + 'static, Failure> {
    let (heads, groups, scale) = (given.count("heads")?, given.count("kv_heads")?, given.number_if("scale")?);
    let (rows, head_dim) = (q.value.nrows(), q.value.ncols().checked_div(heads).unwrap_or(0));
    Ok(move |contract: &RoundingContract| {
        let own = Attention::under(contract, (heads, groups), head_dim);
        Attention { scale: scale.unwrap_or(own.scale), ..own }.of_rows(rows)
    })
}
