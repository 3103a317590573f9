//! Looking into a running model: the values at its sites, copied to the host.

use half::bf16;
use ndarray::{Array2, ArrayView2, s};
use reference::contract::{LayerSite, Site};

use crate::device::Gpu;
use crate::error::Error;
use crate::ops::HeadLayout;
use crate::ops::moe::Fed;
use crate::ops::router::Routed;
use crate::tensor::Matrix;

/// Told of every value that the model keeps in memory.
pub trait Capture {
    /// A value, as the matrix that the reference has at the site.
    fn value(&mut self, site: Site, value: Array2<f32>);

    /// Chosen experts, a row a token.
    fn choices(&mut self, site: Site, chosen: Array2<usize>);
}

/// A capture that may be absent, and the device that the values are on.
pub(crate) struct Tap<'a, 'c> {
    gpu: &'a Gpu,
    capture: Option<&'c mut dyn Capture>,
}

impl<'a, 'c> Tap<'a, 'c> {
    pub(crate) fn new(gpu: &'a Gpu, capture: Option<&'c mut dyn Capture>) -> Self {
        Tap { gpu, capture }
    }

    /// Shows a value.
    pub(crate) fn show(&mut self, site: Site, value: &Matrix<bf16>) -> Result<(), Error> {
        let Some(capture) = &mut self.capture else { return Ok(()) };
        capture.value(site, self.gpu.download(value)?.mapv(f32::from));
        Ok(())
    }

    /// Shows a value that is made on the host.
    pub(crate) fn show_host(&mut self, site: Site, value: ArrayView2<'_, f32>) {
        if let Some(capture) = &mut self.capture {
            capture.value(site, value.to_owned());
        }
    }

    /// Shows the query, key and value projections, which are one matrix.
    pub(crate) fn show_projections(
        &mut self,
        layer: usize,
        layout: &HeadLayout,
        projections: &Matrix<bf16>,
    ) -> Result<(), Error> {
        let Some(capture) = &mut self.capture else { return Ok(()) };
        let all = self.gpu.download(projections)?.mapv(f32::from);
        let (query, key) = (layout.heads() * layout.head_dim(), layout.groups() * layout.head_dim());
        for (site, columns) in [
            (LayerSite::QProj, 0..query),
            (LayerSite::KProj, query..query + key),
            (LayerSite::VProj, query + key..query + 2 * key),
        ] {
            capture.value(Site::Layer(layer, site), all.slice(s![.., columns]).to_owned());
        }
        Ok(())
    }

    /// Shows heads, without what they are padded with.
    pub(crate) fn show_heads(
        &mut self,
        site: Site,
        layout: &HeadLayout,
        heads: &Matrix<bf16>,
        rows: std::ops::Range<usize>,
    ) -> Result<(), Error> {
        let Some(capture) = &mut self.capture else { return Ok(()) };
        let padded = self.gpu.download_rows(heads, rows)?.mapv(f32::from);
        let (d, wide) = (layout.head_dim(), layout.padded());
        let count = padded.ncols() / wide;
        let unpadded = |(i, j): (usize, usize)| padded[[i, j / d * wide + j % d]];
        capture.value(site, Array2::from_shape_fn((padded.nrows(), count * d), unpadded));
        Ok(())
    }

    /// Shows what the router says.
    pub(crate) fn show_routed(&mut self, layer: usize, routed: &Routed) -> Result<(), Error> {
        let Some(capture) = &mut self.capture else { return Ok(()) };
        for (site, value) in [
            (LayerSite::GateLogits, &routed.logits),
            (LayerSite::GateScores, &routed.scores),
            (LayerSite::GateChoice, &routed.choice),
            (LayerSite::GateWeights, &routed.weights),
        ] {
            capture.value(Site::Layer(layer, site), self.gpu.download(value)?);
        }
        let chosen = self.gpu.download(&routed.chosen)?;
        let chosen = chosen.mapv(|expert| usize::try_from(expert).unwrap_or(usize::MAX));
        capture.choices(Site::Layer(layer, LayerSite::GateExperts), chosen);
        Ok(())
    }

    /// Shows what the experts say.
    pub(crate) fn show_fed(&mut self, layer: usize, fed: &Fed) -> Result<(), Error> {
        for (site, value) in [
            (LayerSite::ExpertHidden, &fed.hidden),
            (LayerSite::ExpertOutput, &fed.outputs),
            (LayerSite::Experts, &fed.sum),
            (LayerSite::Mlp, &fed.sum),
        ] {
            self.show(Site::Layer(layer, site), value)?;
        }
        Ok(())
    }
}
