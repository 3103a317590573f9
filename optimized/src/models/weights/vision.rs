//! The weights of the vision tower and the projector.

use half::bf16;
use reference::contract::{Part, Stage, Vision, VisionLayerWeight, VisionWeight, Weight};

use super::Loader;
use crate::error::Error;
use crate::tensor::Matrix;

/// A weight and a bias: of a linear map or of a layer norm.
#[derive(Debug)]
pub(crate) struct Affine {
    pub(crate) weight: Matrix<bf16>,
    pub(crate) bias: Matrix<bf16>,
}

/// All of them.
#[derive(Debug)]
pub(crate) struct VisionWeights {
    pub(crate) patches: Matrix<bf16>,
    pub(crate) pre_norm: Affine,
    pub(crate) layers: Vec<VisionLayer>,
    /// The projector's linear maps, in their order: two of patches, two of merged patches.
    pub(crate) projector: [Affine; 4],
}

/// Those of a layer.
#[derive(Debug)]
pub(crate) struct VisionLayer {
    pub(crate) norm1: Affine,
    pub(crate) q: Affine,
    pub(crate) k: Affine,
    pub(crate) v: Affine,
    pub(crate) out: Affine,
    pub(crate) norm2: Affine,
    pub(crate) fc1: Affine,
    pub(crate) fc2: Affine,
}

impl Loader<'_> {
    /// `progress` is told of each layer.
    pub(crate) fn vision(&self, vision: &Vision, mut progress: impl FnMut()) -> Result<VisionWeights, Error> {
        let patches = self.stacked(&[Weight::Vision(VisionWeight::Patches)])?;
        let pre_norm = self.affine(VisionWeight::PreNorm)?;
        let mut layers = Vec::with_capacity(vision.num_hidden_layers);
        for layer in 0..vision.num_hidden_layers {
            layers.push(self.vision_layer(layer)?);
            progress();
        }
        let stage = |stage| self.affine(|part| VisionWeight::Projector(stage, part));
        let projector = [stage(Stage::Linear1)?, stage(Stage::Linear2)?, stage(Stage::Merge1)?, stage(Stage::Merge2)?];
        Ok(VisionWeights { patches, pre_norm, layers, projector })
    }

    fn vision_layer(&self, layer: usize) -> Result<VisionLayer, Error> {
        let of = |module| self.affine(|part| VisionWeight::Layer(layer, module, part));
        Ok(VisionLayer {
            norm1: of(VisionLayerWeight::Norm1)?,
            q: of(VisionLayerWeight::Q)?,
            k: of(VisionLayerWeight::K)?,
            v: of(VisionLayerWeight::V)?,
            out: of(VisionLayerWeight::Out)?,
            norm2: of(VisionLayerWeight::Norm2)?,
            fc1: of(VisionLayerWeight::Fc1)?,
            fc2: of(VisionLayerWeight::Fc2)?,
        })
    }

    fn affine(&self, of: impl Fn(Part) -> VisionWeight) -> Result<Affine, Error> {
        let part = |part| self.stacked(&[Weight::Vision(of(part))]);
        Ok(Affine { weight: part(Part::Weight)?, bias: part(Part::Bias)? })
    }
}
