//! What transformers computed of layers of `minimax`, the family before M2, next to operators put together as document 000's
//! chapter 3.1 has them (SPEC A34).
//!
//! ```text
//! h = rms_norm(x)    s = α·h + β·attention(h)    g = rms_norm(s)    y = α′·g + β′·moe(g)
//! ```
//!
//! The residual is the normed input; attention is lightning attention or softmax attention, the router a softmax.

use std::fs;

use fixtures::activations::dump::Dump;
use ndarray::{Array1, Array2, s};
use reference::bound::ErrorBound;
use reference::matrix::Matrix;
use reference::ops::attention::{Attention, attention};
use reference::ops::gated_lightning::{GatedLightning, LightningWeights, gated_lightning};
use reference::ops::lightning_attention::slopes;
use reference::ops::linear::Linear;
use reference::ops::moe::{Moe, moe, rows_of};
use reference::ops::residual::{Residual, residual};
use reference::ops::rms_norm::{RmsNorm, rms_norm};
use reference::ops::rope::{Rope, RopeTable, rope, rope_table};
use reference::ops::router::{Router, choice, chosen, scores, weights};
use reference::ops::swiglu::{Swiglu, swiglu};
use reference::probe::NoProbe;
use reference::run::Run;
use reference::semantics::{EpsPlace, Expert, RouterScore};
use reference::{RoundingContract, Semantics, Storage, Tracked};
use serde_json::Value;
use tests::judge::within;
use tests::repository;

/// ε of the norm inside lightning attention, which no configuration has.
const EPS: f64 = 1e-6;

type Run64<'p> = Run<'p, f64>;

fn linear(x: &Tracked<f64>, w: &Matrix<'_>, run: &Run64<'_>) -> Tracked<f64> {
    run.linear(Linear::under, x, w).expect("it fits")
}

/// What a layer does otherwise than the library's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slip {
    None,
    /// Residuals are the stream, as M2's are.
    StreamKept,
    /// α and β are 1.
    NoFactors,
    /// Experts are weighed by their probabilities among all.
    NotRenormalized,
    /// Another layer's decay, or an angle for each position less.
    Displaced,
}

/// A layer's file, and the numbers of both.
struct Layer {
    dump: Dump,
    index: Value,
    /// As `index.json` calls its attention in the names of factors.
    attention: &'static str,
    number: usize,
    slip: Slip,
}

impl Layer {
    fn open(file: &str, attention: &'static str, number: usize) -> Self {
        let folder = repository::path("fixtures/golden-layers");
        let index = fs::read_to_string(folder.join("index.json")).expect("it is there");
        let index = serde_json::from_str(&index).expect("it is JSON");
        let dump = Dump::open(&folder.join(file)).expect("it is whole");
        Layer { dump, index, attention, number, slip: Slip::None }
    }

    fn size(&self, name: &str) -> usize {
        usize::try_from(self.index["sizes"][name].as_u64().expect(name)).expect("in memory")
    }

    fn number(&self, of: &str, name: &str) -> f64 {
        self.index[of][name].as_f64().expect(name)
    }

    /// Rows of the last extent.
    fn values(&self, name: &str) -> Array2<f64> {
        let tensor = self.dump.tensor(name).expect(name);
        let columns = *tensor.shape().last().expect("an extent");
        let values: Vec<f64> = tensor.values();
        Array2::from_shape_vec((values.len() / columns, columns), values).expect("its shape")
    }

    fn matrix(&self, name: &str) -> Matrix<'static> {
        Matrix::stored(self.values(name).view(), Storage::F32)
    }

    fn vector(&self, name: &str) -> Array1<f64> {
        self.values(name).row(0).to_owned()
    }

    fn norm(&self, x: &Tracked<f64>, name: &str, run: &Run64<'_>) -> Tracked<f64> {
        let (w, eps) = (self.vector(name), self.number("sizes", "rms_norm_eps"));
        let params = |contract: &RoundingContract| RmsNorm::under(contract, eps, EpsPlace::Inside);
        let y = rms_norm(&params(&run.contract), x.view(), w.view()).expect("it fits");
        run.tracked(y, |c, y| params(c).bound(x, w.view(), y))
    }

    /// α·x + β·f, with the factors of a block.
    fn added(&self, [x, f]: [&Tracked<f64>; 2], block: &str, run: &Run64<'_>) -> Tracked<f64> {
        let factor = |which| self.number("factors", &format!("{block}_{which}_factor"));
        let factors = if self.slip == Slip::NoFactors { [1.0; 3] } else { [factor("alpha"), factor("beta"), 1.0] };
        let params = |contract: &RoundingContract| Residual { factors, ..Residual::under(contract) };
        let y = residual(&params(&run.contract), x.view(), f.view()).expect("it fits");
        run.tracked(y, |c, y| params(c).bound(x, f, y))
    }

    fn lightning(&self, x: &Tracked<f64>, run: &Run64<'_>) -> Tracked<f64> {
        let (heads, d, layers) =
            (self.size("num_attention_heads"), self.size("head_dim"), self.size("num_hidden_layers"));
        let number = if self.slip == Slip::Displaced { self.number + 1 } else { self.number };
        let params =
            |contract: &RoundingContract| GatedLightning::under(contract, slopes(heads, number, layers), d, EPS);
        let norm = self.vector("self_attn.norm.weight");
        let [qkv, gate, out] =
            ["qkv_proj", "output_gate", "out_proj"].map(|name| self.matrix(&format!("self_attn.{name}.weight")));
        let w = LightningWeights { qkv, norm: norm.view(), gate, out };
        let y = gated_lightning(&params(&run.contract), x.view(), &w).expect("it fits");
        run.tracked(y, |c, y| params(c).bound(x, &w, y).expect("it fits"))
    }

    fn softmax(&self, x: &Tracked<f64>, run: &Run64<'_>) -> Tracked<f64> {
        let [q, k, v] = ["q", "k", "v"].map(|name| {
            let projected = linear(x, &self.matrix(&format!("self_attn.{name}_proj.weight")), run);
            if name == "v" { projected } else { self.rotated(&projected, run) }
        });
        let (heads, d) = ((self.size("num_attention_heads"), self.size("num_key_value_heads")), self.size("head_dim"));
        let params = |contract: &RoundingContract| Attention::under(contract, heads, d);
        let o = attention(&params(&run.contract), q.view(), k.view(), v.view()).expect("it fits");
        let o = run.tracked(o, |c, o| params(c).bound(&q, &k, &v, o));
        linear(&o, &self.matrix("self_attn.o_proj.weight"), run)
    }

    fn rotated(&self, x: &Tracked<f64>, run: &Run64<'_>) -> Tracked<f64> {
        let (d, theta) = (self.size("head_dim"), self.number("sizes", "rope_theta"));
        let params =
            |contract: &RoundingContract| Rope { head_dim: d, rotary_dim: d, theta, ..Rope::default() }.under(contract);
        let (own, n) = (params(&run.contract), x.dim().0);
        // Only differences of positions count; the slip is a θ of another model.
        let own = if self.slip == Slip::Displaced { Rope { theta: 5e6, ..own } } else { own };
        let table = rope_table::<f64>(&own, 0, n);
        let bounded = |x: Tracked<f64>| run.tracked(x.value, |c, x| params(c).table_bound(0, x));
        let table = RopeTable { cos: bounded(table.cos), sin: bounded(table.sin) };
        let y = rope(&own, x.view(), table.cos.view(), table.sin.view()).expect("it fits");
        run.tracked(y, |c, y| params(c).bound(x, &table, y))
    }

    fn experts(&self, x: &Tracked<f64>, run: &Run64<'_>) -> Tracked<f64> {
        let (e, i, h) = (self.size("num_local_experts"), self.size("intermediate_size"), self.size("hidden_size"));
        let (chosen, w) = self.routed(x, run);
        let k = chosen.ncols();
        let [up, down] = ["gate_up", "down"].map(|name| self.values(&format!("mlp.experts.{name}_proj")));
        let mut outputs = Tracked::exact(Array2::zeros((chosen.len(), h)));
        let error = outputs.error.as_mut().expect("it is exact");
        for expert in 0..e {
            let rows = rows_of(expert, chosen.view());
            let own = x.select(&rows.iter().map(|row| row / k).collect::<Vec<_>>());
            let part = |w: &Array2<f64>, first: usize, count: usize| {
                Matrix::stored(w.slice(s![first..first + count, ..]), Storage::F32)
            };
            let [g, u] = [0, 1].map(|half| linear(&own, &part(&up, (2 * expert + half) * i, i), run));
            let params = |contract: &RoundingContract| Swiglu::under(contract, Expert::Gated);
            let a = swiglu(&params(&run.contract), g.view(), u.view()).expect("it fits");
            let a = run.tracked(a, |c, a| params(c).bound(&g, &u, a));
            let y = linear(&a, &part(&down, expert * h, h), run);
            let ErrorBound { certain, sigma, carried } = y.error_or_exact();
            error.carried = error.carried.max(carried);
            for (from, to) in rows.into_iter().enumerate() {
                outputs.value.row_mut(to).assign(&y.value.row(from));
                error.certain.row_mut(to).assign(&certain.row(from));
                error.sigma.row_mut(to).assign(&sigma.row(from));
            }
        }
        let y = moe(&Moe::under(&run.contract), outputs.view(), w.view(), chosen.view()).expect("it fits");
        run.tracked(y, |c, y| Moe::under(c).bound(&outputs, &w, y))
    }

    /// Each token's experts, by the largest logits, and their weights: the softmax of those.
    fn routed(&self, x: &Tracked<f64>, run: &Run64<'_>) -> (Array2<usize>, Tracked<f64>) {
        let z = run.product(Linear::router, x, &self.matrix("mlp.gate.weight")).expect("it fits");
        let semantics = Semantics { router_score: RouterScore::Softmax, ..Semantics::RELEASED };
        let semantics = match self.slip {
            Slip::NotRenormalized => semantics.with("renormalize", "nothing").expect("a reading"),
            _ => semantics,
        };
        let params =
            |contract: &RoundingContract| Router::under(contract, &semantics, self.size("num_experts_per_tok"));
        let p = params(&run.contract);
        let r = run.tracked(scores(&p, z.view()), |c, r| params(c).bound_scores(&z, r));
        let by = choice(&p, r.view(), Array1::zeros(z.dim().1).view()).expect("it fits");
        let by = run.tracked(by, |c, by| params(c).bound_choice(&r, by));
        let chosen = chosen(&p, by.view());
        let w = weights(&p, r.view(), by.view(), chosen.view());
        let w = run.tracked(w, |c, w| params(c).bound_weights(&r, &by, chosen.view(), w));
        (chosen, w)
    }

    /// y, and how far the library's may be from it.
    fn computed(&self) -> Tracked<f64> {
        let mut probe = NoProbe;
        let run = Run::bounding(RoundingContract::EAGER_F32, &mut probe);
        let x = Tracked::exact(self.values("x"));
        let kept = |stream: &Tracked<f64>, normed: &Tracked<f64>| {
            if self.slip == Slip::StreamKept { stream.clone() } else { normed.clone() }
        };
        let h = self.norm(&x, "input_layernorm.weight", &run);
        let a = if self.attention == "linear_attn" { self.lightning(&h, &run) } else { self.softmax(&h, &run) };
        let s = self.added([&kept(&x, &h), &a], self.attention, &run);
        let g = self.norm(&s, "post_attention_layernorm.weight", &run);
        let m = self.experts(&g, &run);
        self.added([&kept(&s, &g), &m], "mlp", &run)
    }

    fn is_right(&self) -> Result<(), String> {
        let want = self.computed();
        let found = within(&self.values("y"), &want.value, &want.error_or_exact());
        found.map(drop).map_err(|fault| fault.to_string())
    }
}

fn layers() -> [Layer; 2] {
    [Layer::open("lightning.safetensors", "linear_attn", 0), Layer::open("softmax.safetensors", "full_attn", 1)]
}

#[test]
fn both_kinds_of_layer_are_within_their_bounds() {
    for layer in layers() {
        assert_eq!(layer.is_right(), Ok(()), "{}", layer.attention);
    }
}

/// The bounds allow no layer of another kind.
#[test]
fn each_slip_is_beyond_them() {
    for slip in [Slip::StreamKept, Slip::NoFactors, Slip::NotRenormalized, Slip::Displaced] {
        for layer in layers() {
            let layer = Layer { slip, ..layer };
            assert!(layer.is_right().is_err(), "{slip:?}: {}", layer.attention);
        }
    }
}
