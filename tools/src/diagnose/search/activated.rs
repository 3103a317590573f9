//! What goes into a gated network's output projection.

use ndarray::{Array2, Axis};
use reference::ops::dense_ffn::Activation;
use reference::{Error, LayerSite, Site};

use super::Bench;
use crate::failure::Failure;

/// What a product reads of what is shown before it: of a network's gate and up projection \[n, 2·d\] what it makes of both, as the
/// candidate rounds it.
pub(super) fn of(bench: &Bench<'_, '_>, product: Site, x: Array2<f64>) -> Result<Array2<f64>, Failure> {
    if !matches!(product, Site::Layer(_, LayerSite::DenseDown | LayerSite::SharedDown)) {
        return Ok(x);
    }
    let (gate, up) = x.view().split_at(Axis(1), x.ncols() / 2);
    bench.with_model(|model| {
        let oai = model.config().swiglu_oai;
        let activation = Activation::under(&bench.contract(), model.semantics(), oai);
        Ok(activation.of(gate, up).map_err(Error::from)?)
    })
}
