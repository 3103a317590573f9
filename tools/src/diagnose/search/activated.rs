//! What goes into a gated network's output projection.

use ndarray::{Array2, Axis};
use reference::Error;
use reference::ops::dense_ffn::Activation;

use super::Bench;
use crate::failure::Failure;

/// What a gated network makes of its gate and up projection \[n, 2·d\], as the candidate rounds it.
pub(super) fn of(bench: &Bench<'_, '_>, both: &Array2<f64>) -> Result<Array2<f64>, Failure> {
    let (gate, up) = both.view().split_at(Axis(1), both.ncols() / 2);
    bench.with_model(|model| {
        let oai = model.config().swiglu_oai;
        let activation = Activation::under(&bench.contract(), model.semantics(), oai);
        Ok(activation.of(gate, up).map_err(Error::from)?)
    })
}
