//! Where an attention's inputs and its output projection are, in the text model and in the tower.

use ndarray::{Array1, Array2};
use reference::site::{VisionLayerSite, VisionSite};
use reference::weights::{LayerWeight, Part, VisionLayerWeight, VisionWeight, Weight};
use reference::{Error, LayerSite, Site};

use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// Where an attention's parts are.
pub(super) struct Parts {
    pub(super) context: Site,
    /// Of q, k and v.
    pub(super) inputs: [Site; 3],
    /// The output projection, with its bias if it has one, where it is behind the site.
    pub(super) output: Option<(Weight, Option<Weight>)>,
}

impl Parts {
    /// Of a site that is the output of attention, or its context.
    pub(super) fn of(site: Site) -> Option<Self> {
        use VisionLayerSite as At;
        match site {
            Site::Layer(layer, at @ (LayerSite::Context | LayerSite::OProj | LayerSite::Attention)) => {
                let of = |site| Site::Layer(layer, site);
                let inputs = [LayerSite::QRope, LayerSite::KRope, LayerSite::VProj].map(of);
                let projection = (Weight::Layer(layer, LayerWeight::OProj), None);
                let output = (at != LayerSite::Context).then_some(projection);
                Some(Parts { context: of(LayerSite::Context), inputs, output })
            }
            Site::Vision(pass, VisionSite::Layer(layer, at @ (At::Context | At::OutProj | At::Attention))) => {
                let of = |site| Site::Vision(pass, VisionSite::Layer(layer, site));
                let out = |part| Weight::Vision(VisionWeight::Layer(layer, VisionLayerWeight::Out, part));
                let output = (at != At::Context).then(|| (out(Part::Weight), Some(out(Part::Bias))));
                Some(Parts { context: of(At::Context), inputs: [At::QRope, At::KRope, At::VProj].map(of), output })
            }
            _ => None,
        }
    }
}

/// A projection's weight, transposed, and its bias, or zeros.
pub(super) fn projection(
    bench: &Bench<'_, '_>,
    of: Weight,
    bias: Option<Weight>,
) -> Result<(Array2<f64>, Array1<f64>), Failure> {
    bench.with_model(|model| {
        let dense = |of| Ok::<Array2<f64>, Failure>(model.weights().get(of).map_err(Error::from)?.dense());
        let w = dense(of)?.reversed_axes();
        let bias = bias.map(dense).transpose()?.map(|bias| bias.into_iter().collect());
        let width = w.ncols();
        Ok((w, bias.unwrap_or_else(|| Array1::zeros(width))))
    })
}
