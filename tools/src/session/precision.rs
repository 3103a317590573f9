//! In what precision a candidate was computed: as the command line says, or its manifest, or found in its values.

use fixtures::Dtype;
use fixtures::activations::manifest::Manifest;
use fixtures::names::at::At;
use fixtures::names::sited::Sited;
use reference::profiles::PROFILES;
use reference::{LayerSite, RoundingContract, Site, Storage};
use serde_json::Value;

use crate::failure::Failure;
use crate::judge::compared::Compared;
use crate::judge::profile::find;
use crate::judge::stored::storage_at;

/// A contract, and from where it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The contract.
    pub contract: RoundingContract,
    /// In words.
    pub from: String,
    /// That the values are coarser than this says, or may have been saved in another type, where they are.
    pub coarser: Option<String>,
}

/// Values of a tensor that are looked at, at most, to see what grid it lies on.
const LOOKED_AT: usize = 1 << 16;

/// The share of values that any documented precision makes its twin's, at least, where most operators are right.
const OWN: f64 = 0.75;

const HELP_AUTOCAST: &str = "load the model in that type instead (from_pretrained(…, dtype=torch.bfloat16)), or say with \
                             --precision what was rounded";

/// The contract of a dump: what is given counts, else what its manifest says, else it is found.
pub fn contract_of(dump: &Sited, given: Option<&str>, compared: &Compared<'_>) -> Result<Known, Failure> {
    let manifest = dump.dump().manifest();
    let declared = manifest.and_then(|manifest| manifest.precision.as_deref());
    let (contract, from) = match (given, declared) {
        (Some(text), _) => (named(text)?, "as given"),
        (None, Some(text)) => (named(text)?, "the dump's manifest"),
        (None, None) => return found(dump, compared),
    };
    Ok(Known { coarser: coarser(dump, &contract)?, contract, from: from.into() })
}

/// The documented precision that agrees best with what activations are stored in.
fn found(dump: &Sited, compared: &Compared<'_>) -> Result<Known, Failure> {
    let producer = dump.dump().manifest().and_then(|manifest| manifest.producer.as_ref());
    if let Some(autocast) = producer.and_then(|producer| producer.get("autocast")).and_then(Value::as_str) {
        let problem = format!(
            "the dump was made under autocast to {autocast}, which stores some operators' results in {autocast} and others' in \
             f32; no profile says which"
        );
        return Err(Failure::new(problem).help(HELP_AUTOCAST));
    }
    let types = types(dump)?;
    if let Some(narrow) = products_alone(&types) {
        let problem = format!(
            "products are stored in {narrow}, norms and the residual stream in f32, as under torch.autocast: no profile says which \
             operators round to {narrow}"
        );
        return Err(Failure::new(problem).help(HELP_AUTOCAST));
    }
    let Some((activations, sites)) = types.iter().max_by_key(|(_, sites)| sites.len()) else {
        let problem =
            "nothing that the dump shows is stored in the type of its activations, which would tell its precision";
        return Err(Failure::new(problem).help("say with --precision what was rounded, such as bf16"));
    };
    let activations = *activations;
    let of_all: usize = types.iter().map(|(_, sites)| sites.len()).sum();
    let stored = match of_all - sites.len() {
        0 => format!("activations are {activations}"),
        others => format!("activations are {activations} at {} of {of_all} sites, {others} are not", sites.len()),
    };
    let engine = dump.dump().manifest().map(Manifest::producer_text);
    let engine = engine.filter(|text| PROFILES.iter().any(|profile| text.contains(profile.engine)));
    let contract = match find(compared, activations, engine.as_deref())? {
        Some(found) => {
            let share = 100.0 * found.share;
            let from = format!("found: {stored}, and {share:.1} % of values are its twin's");
            // In wide types the order of sums alone makes most values others.
            let is_narrow = matches!(activations, Storage::Bf16 | Storage::F16);
            let coarser = (is_narrow && found.share < OWN).then(|| saved_otherwise(activations));
            return Ok(Known { contract: found.contract, from, coarser });
        }
        None => RoundingContract { activations, ..RoundingContract::EAGER_BF16 },
    };
    Ok(Known { contract, from: stored, coarser: None })
}

/// What is said where too few values are what their type's precisions compute.
fn saved_otherwise(activations: Storage) -> String {
    format!(
        "few values are what any documented precision computes that stores {activations}: if they were converted to it when they \
         were saved, save them in the type that they were computed in; an operator's inputs are not known otherwise"
    )
}

/// What the activations of a dump are stored in, by the tensors' types and the grids that their values lie on. An embedding
/// lies on the grid of its weights, whatever activations are stored in, and a router's values are f32 in any case. The wider
/// types come first.
fn types(dump: &Sited) -> Result<Vec<(Storage, Vec<At>)>, Failure> {
    let mut types = [Storage::F32, Storage::F16, Storage::Bf16].map(|storage| (storage, Vec::new()));
    for at in dump.sites().filter(|at| is_activation(at.site)) {
        let stored = match dump.dtype(at) {
            Some(Dtype::Bf16) => Some(Storage::Bf16),
            Some(Dtype::F16) => Some(Storage::F16),
            _ => grid(dump, at)?,
        };
        let of_type = types.iter_mut().find(|(storage, _)| Some(*storage) == stored);
        if let Some((_, sites)) = of_type {
            sites.push(at);
        }
    }
    Ok(types.into_iter().filter(|(_, sites)| !sites.is_empty()).collect())
}

/// The narrow type that projections of attention are stored in, all of them, where no norm and no residual stream is.
fn products_alone(types: &[(Storage, Vec<At>)]) -> Option<Storage> {
    let [(Storage::F32, wide), (narrow, stored)] = types else { return None };
    let of = |sites: &[At], is: fn(&LayerSite) -> bool| {
        sites.iter().filter(|at| matches!(at.site, Site::Layer(_, site) if is(&site))).count()
    };
    let is_product = |site: &LayerSite| matches!(site, LayerSite::QProj | LayerSite::KProj | LayerSite::VProj);
    let is_wide =
        |site: &LayerSite| matches!(site, LayerSite::InputNorm | LayerSite::PostAttentionNorm | LayerSite::Output);
    let are_apart = of(stored, is_product) > 0 && of(wide, is_product) == 0;
    (are_apart && of(wide, is_wide) > 0 && of(stored, is_wide) == 0).then_some(*narrow)
}

/// The coarsest grid on which all values lie; none, where all are zero or infinite and say nothing.
fn grid(dump: &Sited, at: At) -> Result<Option<Storage>, Failure> {
    let Some(place) = dump.reading().values.get(&at) else { return Ok(None) };
    let tensor = dump.dump().tensor(&place.tensor)?;
    let mut values = vec![0.0_f64; tensor.len().min(LOOKED_AT)];
    tensor.values_into(0, &mut values);
    if !values.iter().any(|x| *x != 0.0 && x.is_finite()) {
        return Ok(None);
    }
    let on = |storage: &Storage| values.iter().all(|&x| storage.holds(x));
    Ok(Some([Storage::Bf16, Storage::F16].into_iter().find(on).unwrap_or(Storage::F32)))
}

/// A sentence, where all activations lie on a coarser grid than the contract stores them on.
fn coarser(dump: &Sited, contract: &RoundingContract) -> Result<Option<String>, Failure> {
    if matches!(contract.activations, Storage::Bf16 | Storage::F16) {
        return Ok(None);
    }
    let types = types(dump)?;
    let [(grid, _)] = &types[..] else { return Ok(None) };
    Ok((*grid != Storage::F32).then(|| {
        format!(
            "every activation lies on the grid of {grid}, which is coarser than {contract} stores: give --precision"
        )
    }))
}

/// A contract's name, or a bare type's.
pub fn named(text: &str) -> Result<RoundingContract, Failure> {
    Ok(match text {
        "f64" => RoundingContract::IDEAL,
        "f32" => RoundingContract::EAGER_F32,
        "bf16" => RoundingContract::EAGER_BF16,
        "f16" => RoundingContract::EAGER_F16,
        _ => {
            let help = "give f64, f32, bf16 or f16, or a profile, then `,field=value` for each point that is otherwise";
            return text.parse().map_err(|error| Failure::from(error).help(help));
        }
    })
}

/// Whether a site has the activations' type, and is computed.
fn is_activation(site: Site) -> bool {
    let copied = matches!(site, Site::Embedding | Site::InputsEmbeds);
    !copied && !site.is_choice() && storage_at(site, &RoundingContract::EAGER_BF16) == Storage::Bf16
}
