//! In what precision a candidate was computed: as the command line says, or its manifest, or found in its values.

mod autocast;
mod decimal;
mod head;
mod narrow;
mod shifted;
mod ties;
mod wide;

use fixtures::Dtype;
use fixtures::activations::manifest::Manifest;
use fixtures::names::at::At;
use fixtures::names::form::as_meant;
use fixtures::names::measure::Measure;
use fixtures::names::sited::Sited;
use reference::profiles::PROFILES;
use reference::rounding::Autocast;
use reference::{RoundingContract, Site, Storage};

use crate::failure::Failure;
use crate::judge::compared::Compared;
use crate::judge::profile::{FoundPrecision, MORE, Sought, better, find, in_profile, plain_f32};
use crate::judge::stored::storage_at;

/// A contract, and from where it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The contract.
    pub contract: RoundingContract,
    /// In words.
    pub from: String,
    /// Whether that is from the values, among documented precisions.
    pub is_found: bool,
    /// That the values are coarser than this says, or were converted when they were saved, where they are.
    pub coarser: Option<String>,
    /// Why nothing can be concluded from values that are not at fault, as it may be another.
    pub unsure: Option<String>,
}

/// Values of a tensor that are looked at, at most, to see what grid it lies on.
const LOOKED_AT: usize = 1 << 16;

/// Below this, 2⁻¹⁷, numbers of f16 are further apart than those of bf16 are: 2⁻²⁴, and these 2⁻²⁵ and less.
const SPARSE: f64 = 1.0 / (1 << 17) as f64;

/// The contract of a dump: what is given counts, else what its manifest says, else it is found.
pub fn contract_of(dump: &Sited, given: Option<&str>, compared: &Compared<'_>) -> Result<Known, Failure> {
    decimal::require_none(dump, first_values)?;
    let manifest = dump.dump().manifest();
    let declared = manifest.and_then(|manifest| manifest.precision.as_deref());
    let (contract, from) = match (given, declared) {
        (Some(text), _) => (named(text)?, "as given"),
        (None, Some(text)) => (named(text)?, "the dump's manifest"),
        (None, None) => return found(dump, compared),
    };
    Ok(Known { coarser: coarser(dump, &contract)?, contract, from: from.into(), is_found: false, unsure: None })
}

/// The documented precision that agrees best with what activations are stored in.
fn found(dump: &Sited, compared: &Compared<'_>) -> Result<Known, Failure> {
    require_wide(dump)?;
    let mut types = types(dump, is_activation, computed_in)?;
    let shows_none = types.is_empty();
    if shows_none {
        types = self::types(dump, |site| !site.is_choice(), stored_in)?;
    }
    let apart = autocast::apart(&types);
    let most = types.iter().max_by_key(|(_, sites)| sites.len());
    // Where products are apart, those are the most in some models, and the rest, which comes first, is what is stored.
    let Some((activations, sites)) = types.first().filter(|_| apart.is_some()).or(most) else {
        return of_nothing(dump);
    };
    let activations = *activations;
    let of_all: usize = types.iter().map(|(_, sites)| sites.len()).sum();
    let stored = match of_all - sites.len() {
        _ if shows_none => format!("no activation is shown, and what is shown is {}", word(activations)),
        0 => format!("activations are {}", word(activations)),
        others => {
            format!("activations are {} at {} of {of_all} sites, {others} are not", word(activations), sites.len())
        }
    };
    let engine = dump.dump().manifest().map(Manifest::producer_text);
    let engine = engine.filter(|text| PROFILES.iter().any(|profile| text.contains(profile.engine)));
    let plain = Sought { engine: engine.as_deref(), ..Sought::of(activations) };
    let said = autocast::said(dump);
    let found = match said {
        Storage::Real => find(compared, &Sought { saved: converted(dump, activations)?, ..plain })?,
        _ => None,
    };
    let mut found = autocast::found(compared, found, &plain, (said, &types))?;
    if shows_none && activations == Storage::F32 {
        // What a router makes is f32 whatever it reads.
        for others in [Storage::Bf16, Storage::F16] {
            let other = find(compared, &Sought { engine: plain.engine, ..Sought::of(others) })?;
            // A sum that moves all values of a row leaves few bits, and only where all of it is the twin's all of them.
            found = match (found, other) {
                (Some(one), Some(other)) if other.share > one.share + MORE => Some(other),
                (one, other) => better(one, other, MORE),
            };
        }
    }
    let Some(mut found) = found else {
        let contract = RoundingContract { activations, ..RoundingContract::EAGER_BF16 };
        return Ok(Known { contract, from: stored, is_found: false, coarser: None, unsure: None });
    };
    autocast::require_known(compared, apart, &found)?;
    found = ties::found(compared, found)?;
    let is_as_computed = found.contract.saved == Storage::Real;
    if activations == Storage::F32 && found.contract.autocast == Autocast::Off && is_as_computed {
        found = wide::found(compared, found, &plain)?;
    }
    // In wide types the order of sums alone makes most values others.
    if matches!(activations, Storage::Bf16 | Storage::F16) {
        found = narrow::found(dump, compared, found, &plain, &types)?;
    }
    if activations == Storage::F32
        && found.contract.saved == Storage::Real
        && !compared.shows(found.contract, plain_f32().contract)?
    {
        found = in_profile(compared, plain_f32())?.unwrap_or(found);
    }
    let mut unsure = None;
    if activations == Storage::F32
        && !found.contract.narrows()
        && let Some((narrow, why)) = head::found(dump, compared, &found, &plain)?
    {
        (found, unsure) = (narrow, Some(why));
    }
    let shows_some = dump.sites().any(|at| dump.measure(at) == Measure::SomeLogProbs);
    let is_plain = found.contract.activations == Storage::F32 && !found.contract.narrows();
    if shows_some && !is_plain {
        unsure.get_or_insert_with(|| SOME.to_owned());
    }
    let (FoundPrecision { contract, .. }, share) = (&found, 100.0 * found.share);
    let from = if contract.stream != Storage::Real && contract.saved == Storage::Real {
        let (stream, others) = (contract.stream, contract.activations);
        format!("found: the residual stream is {stream} and all else {others}; {share:.1} % of values are its twin's")
    } else if unsure.is_some() {
        format!("assumed: {stored}, and {share:.1} % of values are its twin's")
    } else if contract.activations == activations || shows_none {
        format!("found: {stored}, and {share:.1} % of values are its twin's")
    } else {
        let computed = word(contract.activations);
        format!(
            "found: {stored}, converted from {computed} when they were saved; {share:.1} % of values are its twin's"
        )
    };
    let coarser = (contract.saved != Storage::Real).then(|| saved_otherwise(contract));
    Ok(Known { contract: *contract, from, is_found: true, coarser, unsure })
}

/// Why log-probabilities of some tokens alone are no proof but of a run in f32, which has all their bits.
const SOME: &str = "log-probabilities of some tokens are too few to tell in which precision they were computed: they are judged in the \
                    nearest; say by --precision which it was, such as bf16 or vllm_bf16";

/// Of a dump of which every value is 0, infinite or no number, which are the same in any precision: that of its tensors' own type.
fn of_nothing(dump: &Sited) -> Result<Known, Failure> {
    let shown = dump.sites().find(|at| !at.site.is_choice() && dump.dtype(*at).is_some());
    let Some(dtype) = shown.and_then(|at| dump.dtype(at)) else {
        let problem = "nothing that the dump shows has a type that would tell its precision";
        let help = "say with --precision what was rounded, such as bf16: of choices alone, as of experts, nothing else says whether roundings may \
                    decide them";
        return Err(Failure::new(problem).help(help));
    };
    let from = format!("tensors are {dtype}, and every value is 0, infinite or no number");
    Ok(Known { contract: RoundingContract::EAGER_F32, from, is_found: false, coarser: None, unsure: None })
}

/// Refuses a dump of which most activations are in eight bits: what an operator read, and what it made of it, is not shown then.
fn require_wide(dump: &Sited) -> Result<(), Failure> {
    let activations: Vec<At> = dump.sites().filter(|at| is_activation(at.site)).collect();
    let is_narrow = |at: &&At| dump.dtype(**at).is_some_and(|dtype| dtype.size() == 1);
    let narrow = activations.iter().filter(is_narrow).count();
    if 2 * narrow <= activations.len() {
        return Ok(());
    }
    let all = activations.len();
    let problem = format!("activations are saved in 8 bits at {narrow} of {all} sites, which leave nothing to compare");
    Err(Failure::new(problem).help("save each tensor in the type that it was computed in, or in f32"))
}

/// The coarsest type of tensors that are of a narrower one than activations are, which are wide: these were converted when they
/// were saved. One that lies on a coarser grid than its own type's was computed so. Of f16, which has fewer small numbers than bf16,
/// they were, too, even where they were made wide again.
fn converted(dump: &Sited, activations: Storage) -> Result<Storage, Failure> {
    let dtypes: Vec<Dtype> = dump.sites().filter_map(|at| dump.dtype(at).filter(|_| !at.site.is_choice())).collect();
    let narrow: &[(Dtype, Storage)] = match activations {
        Storage::F32 => &[(Dtype::Bf16, Storage::Bf16), (Dtype::F16, Storage::F16)],
        Storage::Bf16 => &[(Dtype::F16, Storage::F16)],
        Storage::Real | Storage::Tf32(_) | Storage::F16 | Storage::E4m3 | Storage::E5m2 => &[],
    };
    let coarsest = narrow.iter().find(|(dtype, _)| dtypes.contains(dtype));
    match coarsest {
        Some((_, storage)) => Ok(*storage),
        None if activations == Storage::Bf16 && went_through_f16(dump)? => Ok(Storage::F16),
        None => Ok(Storage::Real),
    }
}

/// Whether all values of wide tensors are numbers of f16, and some are so small that it has but some of bf16's.
fn went_through_f16(dump: &Sited) -> Result<bool, Failure> {
    let mut is_any_small = false;
    for at in dump.sites().filter(|at| !at.site.is_choice()) {
        let is_wide = matches!(dump.dtype(at), Some(Dtype::F32 | Dtype::F64));
        let values = first_values(dump, at)?;
        if !is_wide || values.iter().any(|x| !Storage::F16.holds(*x)) {
            return Ok(false);
        }
        is_any_small |= values.iter().any(|x| *x != 0.0 && x.abs() < SPARSE);
    }
    Ok(is_any_small)
}

/// What is said of values that were converted when they were saved.
fn saved_otherwise(contract: &RoundingContract) -> String {
    if contract.saved == contract.activations {
        return format!(
            "what is computed in f32, as a router's logits, was saved in {}, and is known to half a step alone: save it as it was \
             computed, and more is seen",
            contract.saved
        );
    }
    format!(
        "values were computed in {} and saved in {}, all or some of them, and an operator's inputs are then known to half a step \
         alone: save them as they were computed, and more is seen",
        word(contract.activations),
        contract.saved
    )
}

/// A type as users know it.
fn word(storage: Storage) -> String {
    if storage == Storage::Real { "f64".into() } else { storage.to_string() }
}

/// What the activations of a dump are stored in. An embedding lies on the grid of its weights, whatever activations are stored in,
/// and a router's values are f32 in any case. The wider types come first.
fn types(dump: &Sited, of: fn(Site) -> bool, stored: StoredIn) -> Result<Vec<(Storage, Vec<At>)>, Failure> {
    let mut types = [Storage::Real, Storage::F32, Storage::F16, Storage::Bf16].map(|storage| (storage, Vec::new()));
    for at in dump.sites().filter(|at| of(at.site)) {
        let stored = stored(dump, at)?;
        let of_type = types.iter_mut().find(|(storage, _)| Some(*storage) == stored);
        if let Some((_, sites)) = of_type {
            sites.push(at);
        }
    }
    Ok(types.into_iter().filter(|(_, sites)| !sites.is_empty()).collect())
}

/// What a site's values are stored in; none where they do not say it.
type StoredIn = fn(&Sited, At) -> Result<Option<Storage>, Failure>;

/// By a tensor's type, and the grid that its values lie on.
fn stored_in(dump: &Sited, at: At) -> Result<Option<Storage>, Failure> {
    match dump.dtype(at) {
        Some(Dtype::Bf16) => Ok(Some(Storage::Bf16)),
        Some(Dtype::F16) => Ok(Some(Storage::F16)),
        _ => grid(dump, at),
    }
}

/// The same, but of log-probabilities, which are f32 whatever logits are, what these were stored in.
fn computed_in(dump: &Sited, at: At) -> Result<Option<Storage>, Failure> {
    if dump.measure(at) == Measure::Logits { stored_in(dump, at) } else { shifted::storage(dump, at) }
}

/// The coarsest grid on which all values lie; none, where all are zero or infinite and say nothing.
fn grid(dump: &Sited, at: At) -> Result<Option<Storage>, Failure> {
    let values = first_values(dump, at)?;
    if !values.iter().any(|x| *x != 0.0 && x.is_finite()) {
        return Ok(None);
    }
    let on = |storage: &Storage| values.iter().all(|&x| storage.holds(x));
    Ok(Some([Storage::Bf16, Storage::F16, Storage::F32].into_iter().find(on).unwrap_or(Storage::Real)))
}

/// Values of a site's tensor, the first of them.
fn first_values(dump: &Sited, at: At) -> Result<Vec<f64>, Failure> {
    let Some(place) = dump.reading().values.get(&at) else { return Ok(Vec::new()) };
    let tensor = as_meant(dump.dump().tensor(&place.tensor)?, at.site);
    let mut values = vec![0.0_f64; tensor.len().min(LOOKED_AT)];
    tensor.values_into(0, &mut values);
    Ok(values)
}

/// A sentence, where all activations lie on a coarser grid than the contract stores them on.
fn coarser(dump: &Sited, contract: &RoundingContract) -> Result<Option<String>, Failure> {
    if matches!(contract.activations, Storage::Bf16 | Storage::F16) || contract.saved != Storage::Real {
        return Ok(None);
    }
    let types = types(dump, is_activation, stored_in)?;
    let [(grid, _)] = &types[..] else { return Ok(None) };
    Ok(matches!(grid, Storage::Bf16 | Storage::F16).then(|| {
        format!(
            "every activation lies on the grid of {grid}, which is coarser than {contract} stores: give --precision, with \
             ,saved={grid} if values were converted when they were saved"
        )
    }))
}

/// A contract's name, or a bare type's, and what is otherwise.
pub fn named(text: &str) -> Result<RoundingContract, Failure> {
    let (name, otherwise) = text.split_once(',').map_or((text, None), |(name, rest)| (name, Some(rest)));
    let of_type = match name {
        "f64" => RoundingContract::IDEAL,
        "f32" => RoundingContract::EAGER_F32,
        "bf16" => RoundingContract::EAGER_BF16,
        "f16" => RoundingContract::EAGER_F16,
        _ => {
            let help = "give f64, f32, bf16 or f16, or a profile, then `,field=value` for each point that is otherwise";
            return text.parse().map_err(|error| Failure::from(error).help(help));
        }
    };
    let help = "give `field=value` for each point that is otherwise, such as gate=activations";
    otherwise.map_or(Ok(of_type), |way| of_type.in_way(way).map_err(|error| Failure::from(error).help(help)))
}

/// Whether a site has the activations' type, and is computed.
fn is_activation(site: Site) -> bool {
    let copied = matches!(site, Site::Embedding | Site::InputsEmbeds);
    !copied && !site.is_choice() && storage_at(site, &RoundingContract::EAGER_BF16) == Storage::Bf16
}
