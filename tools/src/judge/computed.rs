//! What the reference computes at every site, before a candidate's values take its place.

use fixtures::names::at::At;
use ndarray::Array2;
use reference::probe::Probe;
use reference::{RoundingContract, Site, Tracked};

use super::lens::Lens;
use super::substitution::Substitution;
use super::verification::Verification;
use crate::failure::Failure;

/// Tells of each value before the substitution sees it.
struct Teller<'a, F> {
    substitution: Substitution<'a>,
    step: usize,
    tell: &'a mut F,
}

impl<F: FnMut(At, &Array2<f64>)> Probe<f64> for Teller<'_, F> {
    fn visit(&mut self, site: Site, value: &mut Tracked<f64>) {
        (self.tell)(At { step: self.step, site }, &value.value);
        Probe::<f64>::visit(&mut self.substitution, site, value);
    }

    fn choose(&mut self, site: Site, scores: &Tracked<f64>, chosen: &mut Array2<usize>) {
        Probe::<f64>::choose(&mut self.substitution, site, scores, chosen);
    }

    fn wants(&self, site: Site) -> bool {
        Probe::<f64>::wants(&self.substitution, site)
    }

    fn stores(&self, site: Site) -> bool {
        Probe::<f64>::stores(&self.substitution, site)
    }
}

impl Verification<'_> {
    /// Runs the layers in f64 with the roundings of `contract`, each operator from what the candidate shows before it, and tells
    /// what is computed at each site of each pass.
    pub(crate) fn each_computed(
        &self,
        contract: RoundingContract,
        mut tell: impl FnMut(At, &Array2<f64>),
    ) -> Result<(), Failure> {
        self.each_advance(contract, None, |loaded, advance| {
            let substitution = Substitution::new(Lens::Local, loaded, &contract, Some(Vec::new()));
            let mut probe = Teller { substitution, step: loaded.step(), tell: &mut tell };
            advance(&mut probe)?;
            probe.substitution.failure.map_or(Ok(()), Err)
        })
    }
}
