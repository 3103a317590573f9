//! The exact twin: the reference in f32, from the candidate's own inputs to each operator, where the candidate's precision
//! fixes the order of its sums. Nothing is left unknown then but the last bits of a device's functions, and on a device whose
//! functions are known, every value is the twin's, bit for bit.

use fixtures::names::at::At;
use ndarray::Array2;
use reference::models::decoder::Decoder;
use reference::run::Run;
use reference::{Real, RoundingContract, Site};
use serde::{Deserialize, Serialize};

use super::lens::Lens;
use super::loaded::Loaded;
use super::state::{Pass, Phase, State};
use super::stored::storage_at;
use super::substitution::{Seen, SeenChoice, Substitution};
use crate::compare::metrics::unravel;
use crate::compare::selection::Selection;
use crate::failure::Failure;

/// How a candidate stands to its exact twin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Exactness {
    /// Each site that it shows, in the order in which a token meets them.
    pub sites: Vec<Bits>,
    /// Whether the candidate's functions are known, so that a difference is a fault.
    pub binding: bool,
}

/// How a site's values stand to the exact twin's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Bits {
    /// The forward pass.
    pub step: usize,
    /// The place.
    pub site: Site,
    /// Values, or what was chosen.
    pub count: usize,
    /// How many are the twin's, bit for bit.
    pub equal: usize,
    /// The first that is not.
    pub first: Option<Difference>,
}

/// A value that is not the twin's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Its index in the dumped tensor, without a batch axis.
    pub index: Vec<usize>,
    /// What the candidate has.
    pub candidate: f64,
    /// What the twin has.
    pub twin: f64,
}

impl Exactness {
    /// At the selected sites alone.
    #[must_use]
    pub fn of(mut self, selection: &Selection) -> Self {
        self.sites.retain(|bits| selection.has(bits.site));
        self
    }

    /// Values, and how many of them are the twin's.
    pub fn values(&self) -> (usize, usize) {
        self.sites.iter().fold((0, 0), |(count, equal), site| (count + site.count, equal + site.equal))
    }

    /// The sites that differ.
    pub fn differing(&self) -> impl Iterator<Item = &Bits> {
        self.sites.iter().filter(|site| site.equal < site.count)
    }

    /// Whether a value differs that must not.
    pub fn is_fault(&self) -> bool {
        self.binding && self.differing().next().is_some()
    }
}

/// An exact twin on its way through a model.
pub(super) struct ExactTwin<'m> {
    model: &'m Decoder<'m>,
    contract: RoundingContract,
    state: State<f32>,
}

impl<'m> ExactTwin<'m> {
    /// Of a model whose weights are held as the contract says; `None` if that fixes no order of sums.
    pub(super) fn new(model: &'m Decoder<'m>, contract: RoundingContract) -> Option<Self> {
        contract.ordered().map(|contract| ExactTwin { model, contract, state: State::new(model) })
    }

    /// Goes on from a candidate's residual stream.
    pub(super) fn jump(&mut self, stream: &Array2<f64>) {
        self.state.jump(stream, &self.contract, true);
    }

    /// Runs one phase of a forward pass: every site that the candidate shows, and how its values stand.
    pub(super) fn advance(&mut self, phase: Phase, pass: Pass<'_>, loaded: &Loaded<'_>) -> Result<Vec<Bits>, Failure> {
        if phase == Phase::Start {
            self.state.truncate(pass.kept());
        }
        let mut probe = Substitution::new(Lens::Local, loaded, &self.contract, None);
        let mut run = Run::<f32>::new(self.contract, &mut probe);
        self.state.advance(self.model, phase, pass, &mut run)?;
        if let Some(failure) = probe.failure {
            return Err(failure);
        }
        let values = probe.seen.iter().map(|seen| self.values(seen, loaded));
        let choices = probe.choices.iter().map(|choice| Ok(choices(choice, loaded)));
        let mut bits = values.chain(choices).collect::<Result<Vec<Bits>, Failure>>()?;
        bits.sort_by_key(|bits| bits.site);
        Ok(bits)
    }

    fn values(&self, seen: &Seen, loaded: &Loaded<'_>) -> Result<Bits, Failure> {
        let candidate = loaded.value(seen.site)?;
        let storage = storage_at(seen.site, &self.contract);
        let twin = seen.computed.value.iter().map(|&x| storage.nearest(x));
        let shape = loaded.shape(seen.site, seen.shown.as_deref());
        let at = At { step: loaded.step(), site: seen.site };
        Ok(Bits::of(at, &shape, candidate.iter().copied().zip(twin)))
    }
}

/// What was chosen is compared as numbers, in the order of choice.
fn choices(choice: &SeenChoice, loaded: &Loaded<'_>) -> Bits {
    let numbers = choice.candidate.iter().zip(&choice.chosen);
    let shape = loaded.shape(choice.site, choice.shown.as_deref());
    let at = At { step: loaded.step(), site: choice.site };
    Bits::of(at, &shape, numbers.map(|(&candidate, &twin)| (candidate as f64, twin as f64)))
}

impl Bits {
    /// Of the candidate's values and the twin's.
    fn of(At { step, site }: At, shape: &[usize], values: impl Iterator<Item = (f64, f64)>) -> Self {
        let mut bits = Bits { step, site, count: 0, equal: 0, first: None };
        for (flat, (candidate, twin)) in values.enumerate() {
            let equal = same_bits(candidate, twin);
            bits.count += 1;
            bits.equal += usize::from(equal);
            if !equal && bits.first.is_none() {
                bits.first = Some(Difference { index: unravel(flat, shape), candidate, twin });
            }
        }
        bits
    }
}

/// Whether two values are one in f32, the sign of 0 included. One NaN is as good as another.
fn same_bits(a: f64, b: f64) -> bool {
    (a.is_nan() && b.is_nan()) || f32::of(a).to_bits() == f32::of(b).to_bits()
}
