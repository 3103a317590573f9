//! M3's vision tower and the projector behind it in bf16: what `reference/src/models/vision.rs` computes, under its contract
//! `PARITY`.

use half::bf16;
use reference::contract::{
    AxialAxes, AxialOrder, AxialPair, AxialRope, ChunkTime, Gelu, Grid, Medium, PatchEmbedding, PatchOrder, Pixels,
    Rounding, RoundingContract, Site, Vision, VisionLayerSite, VisionSite, axial_rope, segments,
};

use super::capture::Tap;
use super::weights::vision::{Affine, VisionLayer, VisionWeights};
use crate::device::Gpu;
use crate::error::Error;
use crate::ops::HeadLayout;
use crate::ops::gelu::gelu;
use crate::ops::layer_norm::layer_norm;
use crate::ops::linear_bias::linear_bias;
use crate::ops::patch_embedding::patch_embedding;
use crate::ops::residual::residual;
use crate::ops::rope::{pad_heads, rope};
use crate::ops::vision_attention::vision_attention;
use crate::tensor::Matrix;

/// The tower and the projector on a device.
#[derive(Debug)]
pub(crate) struct VisionTower {
    vision: Vision,
    layout: HeadLayout,
    weights: VisionWeights,
}

/// What the tower makes of images, or of videos.
#[derive(Debug)]
pub struct Features {
    /// Which.
    pub medium: Medium,
    /// A row a place of the prompt \[N/s, H\].
    pub(crate) rows: Matrix<bf16>,
}

/// What all layers of a pass share.
struct Pass<'a> {
    gpu: &'a Gpu,
    /// 0 for what goes through first.
    number: usize,
    axial: AxialRope,
    cos: Matrix<f32>,
    sin: Matrix<f32>,
    segments: Vec<usize>,
}

impl VisionTower {
    pub(crate) fn new(vision: Vision, weights: VisionWeights) -> Result<Self, Error> {
        let heads = vision.num_attention_heads;
        let layout = HeadLayout::new(heads, heads, vision.head_dim())?;
        Ok(VisionTower { vision, layout, weights })
    }

    /// Features of pixels that go through on pass `number`.
    pub(crate) fn features(
        &self,
        gpu: &Gpu,
        (number, medium, pixels): (usize, Medium, &Pixels),
        tap: &mut Tap<'_, '_>,
    ) -> Result<Features, Error> {
        let p = PatchEmbedding::under(&RoundingContract::PARITY, self.vision.patch, PatchOrder::ColourFirst);
        let x = gpu.upload(pixels.values.view())?;
        let embedded = patch_embedding(gpu, &p, &x, &self.weights.patches)?;
        tap.show(Site::Vision(number, VisionSite::Embeddings), &embedded)?;
        let pass = self.pass(gpu, number, &pixels.grids, tap)?;
        let mut stream = self.norm(&pass, &self.weights.pre_norm, &embedded)?;
        tap.show(Site::Vision(number, VisionSite::PreNorm), &stream)?;
        for (layer, weights) in self.weights.layers.iter().enumerate() {
            stream = self.layer(&pass, layer, weights, &stream, tap)?;
        }
        Ok(Features { medium, rows: self.project(&pass, &stream, tap)? })
    }

    /// The rotation table, made by the reference, and which patches see each other.
    fn pass<'a>(&self, gpu: &'a Gpu, number: usize, grids: &[Grid], tap: &mut Tap<'_, '_>) -> Result<Pass<'a>, Error> {
        let Vision { rope_theta: theta, spatial_merge_size: side, .. } = self.vision;
        let (pair, time) = (AxialPair::Half, ChunkTime::Reset);
        let (order, axes) = (AxialOrder::Merged, AxialAxes::TimeHeightWidth);
        let axial =
            AxialRope { head_dim: self.vision.head_dim(), theta, side, pair, time, order, axes, table: Rounding::NONE };
        let table = axial_rope::<f32>(&axial, grids)?;
        tap.show_host(Site::Vision(number, VisionSite::RopeCos), table.cos.view());
        tap.show_host(Site::Vision(number, VisionSite::RopeSin), table.sin.view());
        let (cos, sin) = (gpu.upload(table.cos.view())?, gpu.upload(table.sin.view())?);
        Ok(Pass { gpu, number, axial, cos, sin, segments: segments(grids) })
    }

    fn layer(
        &self,
        pass: &Pass<'_>,
        layer: usize,
        weights: &VisionLayer,
        x: &Matrix<bf16>,
        tap: &mut Tap<'_, '_>,
    ) -> Result<Matrix<bf16>, Error> {
        use VisionLayerSite as At;
        let Pass { gpu, number, .. } = *pass;
        let at = |site| Site::Vision(number, VisionSite::Layer(layer, site));

        let normed = self.norm(pass, &weights.norm1, x)?;
        tap.show(at(At::Norm1), &normed)?;
        let [q, k, v] = [&weights.q, &weights.k, &weights.v].map(|weights| linear(gpu, weights, &normed));
        let (q, k, v) = (q?, k?, v?);
        for (site, value) in [(At::QProj, &q), (At::KProj, &k), (At::VProj, &v)] {
            tap.show(at(site), value)?;
        }
        let rotation = pass.axial.rotation(&RoundingContract::PARITY);
        let [q, k] = [q, k].map(|x| rope(gpu, &rotation, &x, &pass.cos, &pass.sin));
        let (q, k, v) = (q?, k?, pad_heads(gpu, self.layout.head_dim(), &v)?);
        let rows = 0..x.dim().0;
        tap.show_heads(at(At::QRope), &self.layout, &q, rows.clone())?;
        tap.show_heads(at(At::KRope), &self.layout, &k, rows)?;
        let context = vision_attention(gpu, &self.layout, [&q, &k, &v], &pass.segments)?;
        tap.show(at(At::Context), &context)?;
        let attended = linear(gpu, &weights.out, &context)?;
        tap.show(at(At::OutProj), &attended)?;
        tap.show(at(At::Attention), &attended)?;
        let h = residual(gpu, x, &attended)?;
        tap.show(at(At::Residual), &h)?;

        let normed = self.norm(pass, &weights.norm2, &h)?;
        tap.show(at(At::Norm2), &normed)?;
        let inner = linear(gpu, &weights.fc1, &normed)?;
        tap.show(at(At::Fc1), &inner)?;
        let active = gelu(gpu, Gelu::Erf, &inner)?;
        tap.show(at(At::Activation), &active)?;
        let fed = linear(gpu, &weights.fc2, &active)?;
        tap.show(at(At::Fc2), &fed)?;
        tap.show(at(At::Mlp), &fed)?;
        let y = residual(gpu, &h, &fed)?;
        tap.show(at(At::Output), &y)?;
        Ok(y)
    }

    /// The projector.
    fn project(&self, pass: &Pass<'_>, x: &Matrix<bf16>, tap: &mut Tap<'_, '_>) -> Result<Matrix<bf16>, Error> {
        let at = |site| Site::Vision(pass.number, site);
        let [first, second, merge_first, merge_second] = &self.weights.projector;
        let y = linear(pass.gpu, first, x)?;
        tap.show(at(VisionSite::Linear1), &y)?;
        let y = gelu(pass.gpu, Gelu::Erf, &y)?;
        tap.show(at(VisionSite::Activation), &y)?;
        let y = linear(pass.gpu, second, &y)?;
        tap.show(at(VisionSite::Linear2), &y)?;
        let y = linear(pass.gpu, merge_first, &y.side_by_side(self.vision.merged())?)?;
        tap.show(at(VisionSite::MergeLinear1), &y)?;
        let y = gelu(pass.gpu, Gelu::Erf, &y)?;
        tap.show(at(VisionSite::MergeActivation), &y)?;
        let y = linear(pass.gpu, merge_second, &y)?;
        tap.show(at(VisionSite::MergeLinear2), &y)?;
        tap.show(at(VisionSite::Features), &y)?;
        Ok(y)
    }

    #[expect(clippy::cast_possible_truncation, reason = "kernels take ε in f32")]
    fn norm(&self, pass: &Pass<'_>, weights: &Affine, x: &Matrix<bf16>) -> Result<Matrix<bf16>, Error> {
        layer_norm(pass.gpu, x, &weights.weight, &weights.bias, self.vision.layer_norm_eps as f32)
    }
}

fn linear(gpu: &Gpu, weights: &Affine, x: &Matrix<bf16>) -> Result<Matrix<bf16>, Error> {
    linear_bias(gpu, x, &weights.weight, &weights.bias)
}
