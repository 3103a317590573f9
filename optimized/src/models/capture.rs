//! Looking into a running model: the values at its sites, copied to the host.

use half::bf16;
use ndarray::{Array2, ArrayView2, Axis, s};
use reference::contract::{LayerSite, Site};

use crate::device::Gpu;
use crate::error::Error;
use crate::ops::HeadLayout;
use crate::ops::indexer::Indexed;
use crate::ops::moe::Fed;
use crate::ops::router::Routed;
use crate::tensor::Matrix;

/// Told of every value that the model keeps in memory.
pub trait Capture {
    /// A value, as the matrix that the reference has at the site.
    fn value(&mut self, site: Site, value: Array2<f32>);

    /// Chosen experts, a row a token; or chosen blocks of keys, all tokens of a choice one after the other.
    fn choices(&mut self, site: Site, chosen: Array2<usize>);

    /// Of a group, one rank has `value` at a site where each has a part: the first of them, the next, and so on, and then comes
    /// the model's own value, which is put together of all.
    fn of_rank(&mut self, _rank: usize, _site: Site, _value: ArrayView2<'_, f32>) {}
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

    /// Shows the two halves of rows.
    pub(crate) fn show_halves(&mut self, sites: [Site; 2], both: &Matrix<bf16>) -> Result<(), Error> {
        let Some(capture) = &mut self.capture else { return Ok(()) };
        let both = self.gpu.download(both)?.mapv(f32::from);
        let (first, second) = both.view().split_at(Axis(1), both.ncols() / 2);
        for (site, half) in sites.into_iter().zip([first, second]) {
            capture.value(site, half.to_owned());
        }
        Ok(())
    }

    /// Shows the query, key and value projections, and those of the index branch, which are one matrix.
    pub(crate) fn show_projections(
        &mut self,
        layer: usize,
        layout: &HeadLayout,
        index: Option<&HeadLayout>,
        projections: &Matrix<bf16>,
    ) -> Result<(), Error> {
        let Some(capture) = &mut self.capture else { return Ok(()) };
        let all = self.gpu.download(projections)?.mapv(f32::from);
        let (query, key) = (layout.heads() * layout.head_dim(), layout.groups() * layout.head_dim());
        let mut parts = vec![(LayerSite::QProj, query), (LayerSite::KProj, key), (LayerSite::VProj, key)];
        if let Some(index) = index {
            parts.push((LayerSite::IndexQProj, index.heads() * index.head_dim()));
            parts.push((LayerSite::IndexKProj, index.head_dim()));
        }
        let mut from = 0;
        for (site, width) in parts {
            capture.value(Site::Layer(layer, site), all.slice(s![.., from..from + width]).to_owned());
            from += width;
        }
        Ok(())
    }

    /// Shows what the indexer says of n tokens; a site has all tokens of a choice together.
    pub(crate) fn show_indexed(&mut self, layer: usize, n: usize, indexed: &Indexed) -> Result<(), Error> {
        let Some(capture) = &mut self.capture else { return Ok(()) };
        let choices = indexed.chosen.dim().0 / n;
        let apart: Vec<usize> = (0..choices).flat_map(|which| (0..n).map(move |i| i * choices + which)).collect();
        let maxima = self.gpu.download(&indexed.maxima)?.select(Axis(0), &apart);
        capture.value(Site::Layer(layer, LayerSite::BlockMax), maxima);
        let chosen = self.gpu.download(&indexed.chosen)?.select(Axis(0), &apart);
        let chosen = chosen.mapv(|block| usize::try_from(block).unwrap_or(usize::MAX));
        capture.choices(Site::Layer(layer, LayerSite::Blocks), chosen);
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

    /// Shows what each expert says.
    pub(crate) fn show_fed(&mut self, layer: usize, fed: &Fed) -> Result<(), Error> {
        self.show(Site::Layer(layer, LayerSite::ExpertHidden), &fed.hidden)?;
        self.show(Site::Layer(layer, LayerSite::ExpertOutput), &fed.outputs)
    }
}
