//! Whether a candidate was computed under autocast: its manifest says so, or products are in a narrower type than the rest, or the
//! residual stream, where nothing else is shown, is that of narrow products.

use fixtures::names::at::At;
use fixtures::names::sited::Sited;
use reference::rounding::Autocast;
use reference::{LayerSite, RoundingContract, Site, Storage};
use serde_json::Value;

use crate::failure::Failure;
use crate::judge::compared::Compared;
use crate::judge::profile::{FoundPrecision, MORE, Sought, better, find};

/// The share of products that are their twin's, at least, where they were computed in f32 and converted when they were saved. Of
/// those whose operands are narrow, too, half are others, for these are off by as much as the result is rounded by.
const WIDE: f64 = 0.9;

/// The share of f32's bits that agree with the twin of a run in f32, at least: it differs from it by the order of sums alone.
const OF_F32: f64 = 0.6;

const HELP: &str = "load the model in that type instead (from_pretrained(…, dtype=torch.bfloat16)), or say with --precision what was \
                    rounded";

/// What a manifest says that products were computed in; [`Storage::Real`] where it says nothing.
pub(super) fn said(dump: &Sited) -> Storage {
    let producer = dump.dump().manifest().and_then(|manifest| manifest.producer.as_ref());
    match producer.and_then(|producer| producer.get("autocast")).and_then(Value::as_str) {
        Some("bfloat16") => Storage::Bf16,
        Some("float16") => Storage::F16,
        _ => Storage::Real,
    }
}

/// The narrow type that products are stored in, all of them, where no norm and no residual stream is.
pub(super) fn apart(types: &[(Storage, Vec<At>)]) -> Option<Storage> {
    let [(Storage::F32, wide), (narrow, stored)] = types else { return None };
    let of = |sites: &[At], is: fn(Site) -> bool| sites.iter().filter(|at| is(at.site)).count();
    let are_apart = of(stored, is_product) > 0 && of(wide, is_product) == 0;
    (are_apart && of(wide, is_stream) > 0 && of(stored, is_stream) == 0).then_some(*narrow)
}

/// The better of what was found without autocast, if anything was, and of what is found under it where that may be.
pub(super) fn found(
    compared: &Compared<'_>,
    without: Option<FoundPrecision>,
    plain: &Sought<'_>,
    (said, types): (Storage, &[(Storage, Vec<At>)]),
) -> Result<Option<FoundPrecision>, Failure> {
    if plain.activations != Storage::F32 {
        // All is of one type, but for scores of blocks, which are computed in f32 elsewhere.
        let found = if said == Storage::Real { without } else { find(compared, plain)? };
        let under = |contract: RoundingContract| RoundingContract { autocast: Autocast::to(said), ..contract };
        return Ok(found.map(|found| FoundPrecision { contract: under(found.contract), ..found }));
    }
    // Logits are made wide in many models.
    let is_wide = |at: &At| is_product(at.site) && !matches!(at.site, Site::LmHead | Site::Logits);
    let shows_wide = || types.iter().any(|(storage, sites)| *storage == Storage::F32 && sites.iter().any(is_wide));
    let may_be: &[Storage] = match (said, apart(types), &without) {
        (Storage::Real, Some(Storage::F16), _) | (Storage::F16, ..) => &[Storage::F16],
        (Storage::Real, Some(_), _) | (Storage::Bf16, ..) => &[Storage::Bf16],
        (_, None, Some(without)) if without.bits < OF_F32 && !shows_wide() => &[Storage::Bf16, Storage::F16],
        _ => &[],
    };
    let mut best = without;
    for narrow in may_be {
        best = better(best, find(compared, &Sought { autocast: *narrow, ..*plain })?, MORE);
        let sought = Sought { activations: *narrow, stream: Storage::F32, ..*plain };
        best = better(best, find(compared, &sought)?, MORE);
    }
    Ok(best)
}

/// Refuses products that are apart, where neither autocast explains them nor that they were converted when they were saved.
pub(super) fn require_known(
    compared: &Compared<'_>,
    apart: Option<Storage>,
    found: &FoundPrecision,
) -> Result<(), Failure> {
    let is_one = found.contract.autocast == Autocast::Off && found.contract.stream == Storage::Real;
    let Some(narrow) = apart.filter(|_| is_one) else { return Ok(()) };
    if compared.share_at(found.contract, is_projection)?.is_none_or(|share| share >= WIDE) {
        return Ok(());
    }
    let problem = format!(
        "products are stored in {narrow}, norms and the residual stream in f32, and are not what torch.autocast makes them: no \
         profile says which operators round to {narrow}"
    );
    Err(Failure::new(problem).help(HELP))
}

/// Whether values are what products give, which is in any type where they are of routed experts.
fn is_product(site: Site) -> bool {
    site.is_product() && !matches!(site, Site::Layer(_, LayerSite::ExpertHidden | LayerSite::ExpertOutput))
}

fn is_stream(site: Site) -> bool {
    use LayerSite::{InputNorm, Output, PostAttentionNorm};
    matches!(site, Site::FinalNorm | Site::Layer(_, InputNorm | PostAttentionNorm | Output))
}

fn is_projection(site: Site) -> bool {
    matches!(site, Site::Layer(_, LayerSite::QProj | LayerSite::KProj | LayerSite::VProj))
}
