//! The residual stream of a decoder.

use ndarray::Array2;

use crate::ops::residual::{Residual, residual};
use crate::rounding::NormInput;
use crate::run::Run;
use crate::{Error, LayerSite, Real, Rounding, Site, Tracked};

/// The residual stream in between two blocks.
#[derive(Debug, Clone)]
pub struct Stream<T> {
    /// What the next block adds to.
    pub stored: Tracked<T>,
    /// The sum before it was rounded, where a norm reads that (D60).
    unrounded: Option<Array2<T>>,
}

impl<T> Stream<T> {
    /// What was stored, and the sum before it was rounded, where a norm reads that.
    pub fn of(stored: Tracked<T>, unrounded: Option<Array2<T>>) -> Self {
        Stream { stored, unrounded }
    }

    /// The sum before it was rounded, where a norm reads that.
    pub fn unrounded(&self) -> Option<&Array2<T>> {
        self.unrounded.as_ref()
    }

    pub(super) fn sum(&self) -> &Array2<T> {
        self.unrounded.as_ref().unwrap_or(&self.stored.value)
    }
}

impl<T> From<Tracked<T>> for Stream<T> {
    fn from(stored: Tracked<T>) -> Self {
        Stream { stored, unrounded: None }
    }
}

/// The stream after a block has added `f`: the stream, f and the sum each times a factor.
pub(super) fn residual_stream<T: Real>(
    site: Site,
    x: &Stream<T>,
    (factors, f): ([f64; 3], &Tracked<T>),
    run: &mut Run<'_, T>,
) -> Result<Stream<T>, Error> {
    let read = if run.contract.norm_input == NormInput::Fused { x.sum().view() } else { x.stored.view() };
    let of = |contract: &_| Residual { factors, ..Residual::under(contract) };
    let params = of(&run.contract);
    let y = residual(&params, read, f.view())?;
    let unrounded = match run.contract.norm_input {
        NormInput::Sum | NormInput::Fused => {
            Some(residual(&Residual { output: Rounding::NONE, ..params }, read, f.view())?)
        }
        NormInput::Stored => None,
    };
    let y = run.tracked(y, |candidate, y| {
        let [x, f] = [&x.stored, f].map(|term| {
            let shown = term.widened();
            if candidate.norm_input == NormInput::Fused { shown.with_rounding(candidate.activations) } else { shown }
        });
        of(candidate).bound(&x, &f, y)
    });
    let computed = y.value.clone();
    let stored = run.visit(site, y);
    // A kernel that ends a layer reads its sum again as it was stored.
    let is_read_again =
        run.contract.norm_input == NormInput::Fused && !matches!(site, Site::Layer(_, LayerSite::Residual));
    let unrounded = unrounded.filter(|_| stored.value == computed && !is_read_again);
    Ok(Stream { stored, unrounded })
}
