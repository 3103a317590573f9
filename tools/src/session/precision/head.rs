//! Logits in f32, of which nothing before them is shown, and which are no run's in f32 that is right: the model may be computed in the
//! type of its weights, and its head in f32, as MiniMax's own recipe and `SGLang`'s `enable_fp32_lm_head` do. So may one in f32 that is
//! wrong, and nothing tells them apart.

use fixtures::names::sited::Sited;
use reference::profiles::PROFILES;
use reference::weights::Weight;
use reference::{Site, Storage};

use crate::failure::Failure;
use crate::judge::compared::Compared;
use crate::judge::profile::{FoundPrecision, Sought, find};

/// The share of bits that agree with the twin, at least, of a right run in f32: fourteen of 24. Other orders of sums cost some six, and
/// a narrow type on the way sixteen.
const RIGHT: f64 = 14.0 / 24.0;

/// The precision in which a head alone is wide, if the head alone is shown and what was found in f32 is too far from its twin, and why
/// nothing can be concluded under it. An engine none of whose profiles is narrow has no such run.
pub(super) fn found(
    dump: &Sited,
    compared: &Compared<'_>,
    found: &FoundPrecision,
    plain: &Sought<'_>,
) -> Result<Option<(FoundPrecision, String)>, Failure> {
    let head = if compared.config.tie_word_embeddings { Weight::Embedding } else { Weight::LmHead };
    let stored = compared.weights.get(head).map_err(reference::Error::from)?.storage();
    let engine = dump.reading().engine.to_lowercase();
    let mut own = PROFILES.iter().filter(|profile| engine.contains(profile.engine)).peekable();
    let is_wide = own.peek().is_some() && own.all(|profile| profile.contract.activations != stored);
    if !is_alone(dump) || is_wide || found.bits >= RIGHT || !matches!(stored, Storage::Bf16 | Storage::F16) {
        return Ok(None);
    }
    let narrow = find(compared, &Sought { activations: stored, ..*plain })?;
    let why = format!(
        "logits are f32, and too far from a run in f32 for one that is right: the model may have run in {stored} with its head in \
         f32, as is judged here, or in f32 and wrong; say by --precision which it is, or dump hidden states, too"
    );
    Ok(narrow.map(|narrow| (narrow, why)))
}

/// Whether nothing on the way from tokens to the last norm is shown.
pub(super) fn is_alone(dump: &Sited) -> bool {
    dump.sites().all(|at| matches!(at.site, Site::FinalNorm | Site::LmHead | Site::Logits))
}
