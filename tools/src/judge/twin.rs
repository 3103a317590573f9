//! The twin: the reference under a precision, from the candidate's own inputs to each operator.
//!
//! What is deterministic is performed: casts of weights, stored outputs, tables. What is left unknown is the order of sums
//! and the last bit of functions, so that a right candidate equals its twin in all but a few values: how few is predicted by
//! runs of the twin whose sums are drawn in other orders.

use std::collections::HashMap;

use ndarray::{Array2, Zip};
use reference::models::decoder::Decoder;
use reference::run::Run;
use reference::{RoundingContract, Site};

use super::agreement::Agreement;
use super::lens::Lens;
use super::stored::storage_at;
use super::substitution::{Loaded, Substitution};
use super::track::{Pass, Phase, State};
use crate::failure::Failure;

/// Runs in other orders, by which the share of values that differ is predicted.
const REPLAYS: u64 = 3;

/// A twin on its way through a model.
pub(crate) struct Twin<'m> {
    model: &'m Decoder<'m>,
    contract: RoundingContract,
    main: State,
    replays: Vec<State>,
}

impl<'m> Twin<'m> {
    /// Of a model whose weights are held as the contract says.
    pub(crate) fn new(model: &'m Decoder<'m>, contract: RoundingContract) -> Self {
        Twin { model, contract, main: State::new(model), replays: (0..REPLAYS).map(|_| State::new(model)).collect() }
    }

    /// One that predicts nothing.
    pub(crate) fn alone(model: &'m Decoder<'m>, contract: RoundingContract) -> Self {
        Twin { model, contract, main: State::new(model), replays: Vec::new() }
    }

    /// Goes on from a candidate's residual stream.
    pub(crate) fn jump(&mut self, stream: &Array2<f64>) {
        self.main.jump(stream);
        self.replays.iter_mut().for_each(|replay| replay.jump(stream));
    }

    /// Runs one phase of a forward pass: every site that the candidate shows, and how its values stand.
    pub(crate) fn advance(
        &mut self,
        phase: Phase,
        pass: Pass<'_>,
        loaded: &Loaded<'_>,
    ) -> Result<HashMap<Site, Agreement>, Failure> {
        if phase == Phase::Start {
            std::iter::once(&mut self.main).chain(&mut self.replays).for_each(|state| state.truncate(pass.kept()));
        }
        let own = seen(self.model, &mut self.main, self.contract, (phase, pass, loaded))?;
        let mut unequal: HashMap<Site, usize> = HashMap::new();
        for (replay, seed) in self.replays.iter_mut().zip(1..) {
            let other = seen(self.model, replay, self.contract.reordered(seed), (phase, pass, loaded))?;
            for ((site, own), (_, other)) in own.iter().zip(&other) {
                *unequal.entry(*site).or_default() += own.iter().zip(other).filter(|(a, b)| a != b).count();
            }
        }
        let replays = self.replays.len().max(1) as f64;
        let agreement = |(site, own): (Site, Array2<f64>)| {
            let candidate = loaded.value(site)?;
            let (mut equal, mut bits) = (0, 0.0);
            let size = (own.iter().map(|x| x * x).sum::<f64>() / own.len() as f64).sqrt();
            Zip::from(&own).and(candidate.as_ref()).for_each(|a, b| {
                equal += usize::from(a == b);
                bits += if a == b { 1.0 } else { agreeing_bits((a - b).abs() / size) };
            });
            let bits = bits / own.len() as f64;
            let unequal_expected = unequal.get(&site).map_or(0.0, |count| *count as f64 / replays);
            Ok((site, Agreement { count: own.len(), equal, bits, unequal_expected }))
        };
        own.into_iter().map(agreement).collect()
    }
}

/// The share of 24 bits that agree where two values differ by so much, relative to what is usual at the site.
fn agreeing_bits(apart: f64) -> f64 {
    if apart.is_finite() { (-apart.log2() / 24.0).clamp(0.0, 1.0) } else { 0.0 }
}

/// What a run under a contract computes at the sites that the candidate shows, as it is stored.
fn seen(
    model: &Decoder<'_>,
    state: &mut State,
    contract: RoundingContract,
    (phase, pass, loaded): (Phase, Pass<'_>, &Loaded<'_>),
) -> Result<Vec<(Site, Array2<f64>)>, Failure> {
    let mut probe = Substitution::new(Lens::Local, loaded, None);
    state.advance(model, phase, pass, &mut Run::new(contract, &mut probe))?;
    match probe.failure {
        Some(failure) => Err(failure),
        None => Ok(probe
            .seen
            .into_iter()
            .map(|seen| {
                let storage = storage_at(seen.site, &contract);
                (seen.site, seen.computed.value.mapv_into(|x| storage.nearest(x)))
            })
            .collect()),
    }
}
