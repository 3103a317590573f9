//! M3's vision tower and the projector behind it: from pixels to rows of the text model's stream (SPEC A21 to A25).
//!
//! ```text
//! x = norm(patches · w)        h = x + attention(norm₁ x)        y = h + network(norm₂ h)
//! f = linear₄ gelu linear₃ merge(linear₂ gelu linear₁ y)
//! ```
//!
//! All images of a prompt go through together, each seeing itself alone; then all chunks of its videos. No norm follows the
//! last layer, and all patches of it are taken.

use ndarray::Array1;

use crate::config::{Config, Vision};
use crate::grid::{Grid, frames, segments};
use crate::matrix::Matrix;
use crate::media::Pixels;
use crate::ops::axial_rope::{AxialRope, axial_rope};
use crate::ops::gelu::{Gelu, Share, gelu, steps};
use crate::ops::layer_norm::{LayerNorm, layer_norm};
use crate::ops::patch_embedding::{PatchEmbedding, patch_embedding};
use crate::ops::patch_merge::{PatchMerge, patch_merge};
use crate::ops::residual::{Residual, residual};
use crate::ops::rope::{RopeTable, rope};
use crate::ops::vision_attention::{VisionAttention, vision_attention};
use crate::run::{Run, vector};
use crate::semantics::{self, ChunkTime, PostNorm, VisionSpan};
use crate::site::{VisionLayerSite, VisionSite};
use crate::weights::{Part, Stage, VisionLayerWeight, VisionWeight, Weight, Weights};
use crate::{Error, Real, Rounding, RoundingContract, Semantics, Site, Tracked};

/// The tower, and the projector, on one pass.
#[derive(Clone)]
pub struct VisionTower<'m> {
    vision: &'m Vision,
    semantics: Semantics,
    weights: &'m dyn Weights,
    /// 0 for what goes through first.
    pass: usize,
    /// Whether it is videos that go through.
    videos: bool,
}

/// Patches on their way: their stream, and the table that their queries and keys are rotated by.
#[derive(Debug, Clone)]
pub struct Patches<T> {
    /// A row a patch.
    pub stream: Tracked<T>,
    /// Of all layers.
    pub table: RopeTable<T>,
}

impl<'m> VisionTower<'m> {
    /// The tower of a model, if it has one.
    pub(super) fn of(
        config: &'m Config,
        semantics: &Semantics,
        weights: &'m dyn Weights,
        (pass, videos): (usize, bool),
    ) -> Option<Self> {
        let vision = config.vision.as_ref()?;
        Some(VisionTower { vision, semantics: *semantics, weights, pass, videos })
    }

    /// Features of pixels \[N/s, H\].
    pub fn features<T: Real>(&self, pixels: &Pixels, run: &mut Run<'_, T>) -> Result<Tracked<T>, Error> {
        let mut patches = self.embed(pixels, run)?;
        for layer in 0..self.vision.num_hidden_layers {
            patches.stream = self.layer(layer, &patches, &pixels.grids, run)?;
        }
        self.project(&patches.stream, &pixels.grids, run)
    }

    /// The stream before the first layer, and the rotation table.
    pub fn embed<T: Real>(&self, pixels: &Pixels, run: &mut Run<'_, T>) -> Result<Patches<T>, Error> {
        let x = Tracked::plain(pixels.values.mapv(|x| T::of(f64::from(x))));
        let x = run.narrowed(&x, |_| self.semantics.pixels.storage());
        let x = run.narrowed(&x, RoundingContract::convolved);
        let w = self.weight(VisionWeight::Patches)?;
        let params = |c: &RoundingContract| {
            PatchEmbedding::under(&c.of_products(), self.vision.patch, self.semantics.patch_order)
        };
        let y = patch_embedding(&params(&run.contract), x.view(), &w)?;
        let y = run.tracked(y, |c, y| params(c).bound(&x.widened(), &w, y));
        let embedded = self.visit(VisionSite::Embeddings, y, run);
        let table = self.table(&pixels.grids, run)?;
        let normed = self.norm(VisionWeight::PreNorm, &embedded, run)?;
        Ok(Patches { stream: self.visit(VisionSite::PreNorm, normed, run), table })
    }

    /// One layer, from stream to stream.
    pub fn layer<T: Real>(
        &self,
        layer: usize,
        Patches { stream: x, table }: &Patches<T>,
        grids: &[Grid],
        run: &mut Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        use VisionLayerSite as At;
        use VisionLayerWeight::{Fc1, Fc2, K, Norm1, Norm2, Out, Q, V};
        let of = |module| move |part| VisionWeight::Layer(layer, module, part);
        let at = |site| VisionSite::Layer(layer, site);

        let normed = self.norm(of(Norm1), x, run)?;
        let normed = self.visit(at(At::Norm1), normed, run);
        let [q, k, v] = [(Q, At::QProj), (K, At::KProj), (V, At::VProj)].map(|(module, site)| {
            let y = self.linear(of(module), &normed, run)?;
            Ok::<_, Error>(self.visit(at(site), y, run))
        });
        let (q, k, v) = (self.rotated(&q?, table, run)?, self.rotated(&k?, table, run)?, v?);
        let q = self.visit(at(At::QRope), q, run);
        let k = self.visit(at(At::KRope), k, run);
        let context = self.attend([&q, &k, &v], grids, run)?;
        let context = self.visit(at(At::Context), context, run);
        let attended = self.linear(of(Out), &context, run)?;
        let attended = self.visit(at(At::OutProj), attended, run);
        let attended = self.visit(at(At::Attention), attended, run);
        let h = add(x, &attended, run)?;
        let h = self.visit(at(At::Residual), h, run);

        let normed = self.norm(of(Norm2), &h, run)?;
        let normed = self.visit(at(At::Norm2), normed, run);
        let inner = self.linear(of(Fc1), &normed, run)?;
        let inner = self.visit(at(At::Fc1), inner, run);
        let active = self.gelu(self.semantics.tower_gelu, &inner, run);
        let active = self.visit(at(At::Activation), active, run);
        let fed = self.linear(of(Fc2), &active, run)?;
        let fed = self.visit(at(At::Fc2), fed, run);
        let fed = self.visit(at(At::Mlp), fed, run);
        let y = add(&h, &fed, run)?;
        Ok(self.visit(at(At::Output), y, run))
    }

    /// The projector: features of the last layer's stream.
    pub fn project<T: Real>(&self, x: &Tracked<T>, grids: &[Grid], run: &mut Run<'_, T>) -> Result<Tracked<T>, Error> {
        let of = |stage| move |part| VisionWeight::Projector(stage, part);
        let normed = match self.semantics.vision_post_norm {
            PostNorm::None => None,
            PostNorm::Applied => Some(self.plain_norm(x, run)?),
        };
        let y = self.linear(of(Stage::Linear1), normed.as_ref().unwrap_or(x), run)?;
        let y = self.visit(VisionSite::Linear1, y, run);
        let y = self.gelu(self.semantics.projector_gelu, &y, run);
        let y = self.visit(VisionSite::Activation, y, run);
        let y = self.linear(of(Stage::Linear2), &y, run)?;
        let y = self.visit(VisionSite::Linear2, y, run);
        let merge = PatchMerge { side: self.vision.spatial_merge_size, order: self.semantics.merge_order };
        let merged = patch_merge(&merge, y.view(), grids)?;
        let y = run.tracked(merged, |_, _| merge.bound(&y.error_or_exact(), grids));
        let y = self.linear(of(Stage::Merge1), &y, run)?;
        let y = self.visit(VisionSite::MergeLinear1, y, run);
        let y = self.gelu(self.semantics.merge_gelu, &y, run);
        let y = self.visit(VisionSite::MergeActivation, y, run);
        let y = self.linear(of(Stage::Merge2), &y, run)?;
        let y = self.visit(VisionSite::MergeLinear2, y, run);
        Ok(self.visit(VisionSite::Features, y, run))
    }

    fn visit<T: Real>(&self, site: VisionSite, value: Tracked<T>, run: &mut Run<'_, T>) -> Tracked<T> {
        run.visit(Site::Vision(self.pass, site), value)
    }

    fn weight(&self, weight: VisionWeight) -> Result<Matrix<'m>, Error> {
        Ok(self.weights.get(Weight::Vision(weight))?)
    }

    fn table<T: Real>(&self, grids: &[Grid], run: &mut Run<'_, T>) -> Result<RopeTable<T>, Error> {
        let params = |c: &RoundingContract| self.axial().under(c);
        let table = axial_rope::<T>(&params(&run.contract), grids)?;
        let bounded = |x: Tracked<T>, run: &Run<'_, T>| run.tracked(x.value, |c, x| params(c).bound(grids, x));
        let (cos, sin) = (bounded(table.cos, run), bounded(table.sin, run));
        let cos = self.visit(VisionSite::RopeCos, cos, run);
        Ok(RopeTable { cos, sin: self.visit(VisionSite::RopeSin, sin, run) })
    }

    fn axial(&self) -> AxialRope {
        let Vision { rope_theta: theta, spatial_merge_size: side, .. } = *self.vision;
        // An image is no chunk of anything.
        let time = if self.videos { self.semantics.chunk_time } else { ChunkTime::Reset };
        let Semantics { axial_pair: pair, axial_order: order, axial_axes: axes, .. } = self.semantics;
        AxialRope { head_dim: self.vision.head_dim(), theta, side, pair, time, order, axes, table: Rounding::NONE }
    }

    fn rotated<T: Real>(&self, x: &Tracked<T>, table: &RopeTable<T>, run: &Run<'_, T>) -> Result<Tracked<T>, Error> {
        let params = |c: &RoundingContract| self.axial().rotation(c);
        let y = rope(&params(&run.contract), x.view(), table.cos.view(), table.sin.view())?;
        Ok(run.tracked(y, |c, y| {
            let table = RopeTable { cos: table.cos.widened(), sin: table.sin.widened() };
            params(c).bound(&x.widened(), &table, y)
        }))
    }

    fn attend<T: Real>(
        &self,
        [q, k, v]: [&Tracked<T>; 3],
        grids: &[Grid],
        run: &Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        let span = self.semantics.vision_attention;
        let segments = if span == VisionSpan::Frame { frames(grids) } else { segments(grids) };
        let [q, k, v] = [q, k, v].map(|x| run.narrowed(x, |contract| contract.of_attention().autocast.storage()));
        let (heads, d) = (self.vision.num_attention_heads, self.vision.head_dim());
        let params =
            |c: &RoundingContract| VisionAttention::under(c, heads, d, span).scaled(self.semantics.vision_score_scale);
        let o = vision_attention(&params(&run.contract), q.view(), k.view(), v.view(), &segments)?;
        Ok(run.tracked(o, |c, o| params(c).bound(&q.widened(), &k.widened(), &v.widened(), &segments, o)))
    }

    fn linear<T: Real>(
        &self,
        of: impl Fn(Part) -> VisionWeight,
        x: &Tracked<T>,
        run: &Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        run.linear_bias(x, &self.weight(of(Part::Weight))?, &self.weight(of(Part::Bias))?)
    }

    fn norm<T: Real>(
        &self,
        of: impl Fn(Part) -> VisionWeight,
        x: &Tracked<T>,
        run: &Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        let (w, b) = (self.weight(of(Part::Weight))?, self.weight(of(Part::Bias))?);
        let eps = self.eps(of(Part::Weight));
        let params = |c: &RoundingContract| LayerNorm::under(c, eps);
        let y = layer_norm(&params(&run.contract), x.view(), vector(&w).view(), vector(&b).view())?;
        Ok(run.tracked(y, |c, y| params(c).bound(&x.widened(), vector(&w).view(), y)))
    }

    /// Of a norm.
    fn eps(&self, of: VisionWeight) -> f64 {
        let own = match of {
            VisionWeight::PreNorm(_) => self.semantics.vision_pre_norm_eps,
            _ => self.semantics.vision_layer_norm_eps,
        };
        own.or(self.semantics.vision_norm_eps).unwrap_or(self.vision.layer_norm_eps)
    }

    /// By a weight of ones and a bias of zeros.
    fn plain_norm<T: Real>(&self, x: &Tracked<T>, run: &Run<'_, T>) -> Result<Tracked<T>, Error> {
        let eps = self.semantics.vision_norm_eps.unwrap_or(self.vision.layer_norm_eps);
        let params = |c: &RoundingContract| LayerNorm::under(c, eps);
        let width = x.dim().1;
        let (w, b) = (Array1::ones(width), Array1::zeros(width));
        let y = layer_norm(&params(&run.contract), x.view(), w.view(), b.view())?;
        Ok(run.tracked(y, |c, y| params(c).bound(&x.widened(), Array1::ones(width).view(), y)))
    }

    /// That of its place, if it has one of its own.
    fn gelu<T: Real>(&self, own: Option<semantics::Gelu>, x: &Tracked<T>, run: &Run<'_, T>) -> Tracked<T> {
        let share = match own.unwrap_or(self.semantics.gelu) {
            semantics::Gelu::Erf => Share::Erf,
            semantics::Gelu::Tanh => Share::Tanh,
            semantics::Gelu::Quick => Share::Sigmoid,
            semantics::Gelu::QuickBf16 => return steps::quick(x, run),
        };
        let params = |c: &RoundingContract| Gelu::under(&c.of_products(), share);
        run.tracked(gelu(&params(&run.contract), x.view()), |c, a| params(c).bound(&x.widened(), a))
    }
}

fn add<T: Real>(x: &Tracked<T>, f: &Tracked<T>, run: &Run<'_, T>) -> Result<Tracked<T>, Error> {
    let y = residual(&Residual::under(&run.contract), x.view(), f.view())?;
    Ok(run.tracked(y, |c, y| Residual::under(c).bound(&x.widened(), &f.widened(), y)))
}
