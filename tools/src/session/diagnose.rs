//! Which known mistake makes a dump what it is.

use fixtures::activations::dump::Dump;
use fixtures::activations::manifest::Manifest;

use super::dumped::{Dumped, Given, Prefix, require_intact};
use super::model::Model;
use super::progress::{Progress, Watcher};
use crate::diagnose::diagnosis::{self, Diagnosis};
use crate::failure::Failure;

/// Diagnoses one request of a dump, which must have been made from the tokens that are given. Where it says itself that it was, the
/// embedding of other tokens is its model's fault.
pub fn diagnose(model: &Model, dumped: &Dumped, watch: &mut Watcher<'_>) -> Result<Diagnosis, Failure> {
    let comparison = dumped.comparison(model);
    let says_tokens = dumped.values.dump().manifest().is_some_and(Manifest::says_tokens);
    let other = if says_tokens { comparison.other_tokens()? } else { comparison.require_tokens().map(|()| None)? };
    watch(Progress::Begins { what: "trying known mistakes", steps: 0 });
    let mut diagnosis = diagnosis::diagnose(&comparison, |left| {
        watch(Progress::Left(left));
        watch(Progress::Step);
    })?;
    watch(Progress::Ends);
    require_intact(model, dumped.values.dump())?;
    if diagnosis.unexplained.is_some() {
        diagnosis.solved.splice(0..0, other.map(|other| format!("tokens' embeddings differ {other}")));
    }
    Ok(diagnosis)
}

/// Whether a request of a dump is diagnosed behind those before it: what is a request once more, where these have no fault.
pub fn is_due(dumped: &Dumped, before: &[Diagnosis]) -> bool {
    dumped.prefix != Prefix::Computed || before.iter().all(Diagnosis::is_right)
}

/// Diagnoses one request of a dump, by what is known of it; where nothing explains a fault and there is padding, as a request of
/// which the candidate takes padding as tokens, too. For that the dump is opened `again`.
pub fn diagnose_request(
    model: &Model,
    dumped: &Dumped,
    (given, again): (&Given, impl FnOnce() -> Result<Dump, Failure>),
    watch: &mut Watcher<'_>,
) -> Result<Diagnosis, Failure> {
    let diagnosis = diagnose(model, dumped, watch)?;
    diagnose_padded(model, diagnosis, || {
        if dumped.values.request().is_none_or(|request| request.padding == 0) {
            return Ok(None);
        }
        let given = Given { padding_is_seen: true, ..given.clone() };
        let calls = dumped.values.dump().manifest().map_or(&[][..], |manifest| &manifest.calls);
        let all = match Dumped::of(again()?, &given, model) {
            // The positions that it states are no tokens' where there is padding.
            Err(_) if calls.iter().any(|call| call.positions.is_some()) => return Ok(None),
            all => all?,
        };
        Ok(all.into_iter().find(|padded| (padded.request, padded.prefix) == (dumped.request, dumped.prefix)))
    })
}

/// The same of a request with padding that nothing explains, where `padded` reads it with its padding as tokens.
pub fn diagnose_padded(
    model: &Model,
    diagnosis: Diagnosis,
    padded: impl FnOnce() -> Result<Option<Dumped>, Failure>,
) -> Result<Diagnosis, Failure> {
    let Some(fault) = diagnosis.unexplained.as_deref().filter(|_| diagnosis.explained.is_empty()) else {
        return Ok(diagnosis);
    };
    let Some(padded) = padded()? else { return Ok(diagnosis) };
    let seen = diagnosis::of_seen_padding(&padded.comparison(model), fault.clone())?;
    Ok(seen.unwrap_or(diagnosis))
}
