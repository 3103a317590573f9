//! How a candidate rounds: from the command line, its manifest, its types, or the grid that its values lie on.

use fixtures::Dtype;
use fixtures::names::at::At;
use fixtures::names::sited::Sited;
use reference::site::Extent;
use reference::{LayerSite, RoundingContract, Site, Storage};

use crate::failure::Failure;

/// A contract, and from where it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The contract.
    pub contract: RoundingContract,
    /// In words.
    pub from: String,
    /// That the values are coarser than this says, where they are.
    pub coarser: Option<String>,
}

impl Known {
    fn of(contract: RoundingContract, from: String) -> Self {
        Known { contract, from, coarser: None }
    }
}

/// The contract of a dump.
pub fn contract_of(dump: &Sited, given: Option<&str>, extent: impl Fn(usize) -> Extent) -> Result<Known, Failure> {
    let declared = dump.dump().manifest().and_then(|manifest| manifest.precision.as_deref());
    let (contract, from) = match (given, declared) {
        (Some(text), _) => (named(text)?, "as given"),
        (None, Some(text)) => (named(text)?, "the dump's manifest"),
        (None, None) => return by_types(dump, extent),
    };
    Ok(Known { coarser: coarser(dump, &contract, extent)?, contract, from: from.into() })
}

/// A sentence, where all outputs of layers lie on a coarser grid than the contract stores them on.
fn coarser(
    dump: &Sited,
    contract: &RoundingContract,
    extent: impl Fn(usize) -> Extent,
) -> Result<Option<String>, Failure> {
    if matches!(contract.activations, Storage::Bf16 | Storage::F16) {
        return Ok(None);
    }
    let outputs = dump.sites().filter(|at| matches!(at.site, Site::Layer(_, LayerSite::Output)));
    let mut coarsest: Option<Storage> = None;
    for (i, at) in outputs.enumerate() {
        let values = dump.matrix::<f64>(at, extent(at.step))?;
        let grid = [Storage::Bf16, Storage::F16].into_iter().find(|grid| values.iter().all(|&x| grid.holds(x)));
        if grid.is_none() || i > 0 && grid != coarsest {
            return Ok(None);
        }
        coarsest = grid;
    }
    Ok(coarsest.map(|grid| {
        format!(
            "every layer's output lies on the grid of {grid}, which is coarser than {contract} stores: give --contract"
        )
    }))
}

/// The contract that the types and values of a dump suggest.
fn by_types(dump: &Sited, extent: impl Fn(usize) -> Extent) -> Result<Known, Failure> {
    let activation = dump.sites().find(|at| is_activation(at.site));
    let Some(at) = activation.or_else(|| dump.sites().next()) else {
        return Err(Failure::new("the dump has no activation that is known").help("see --names"));
    };
    match dump.dtype(at) {
        Some(Dtype::Bf16) => Ok(Known::of(RoundingContract::EAGER_BF16, format!("{at} is bf16"))),
        Some(Dtype::F16) => Ok(Known::of(RoundingContract::EAGER_F16, format!("{at} is f16"))),
        _ => by_grid(dump, at, extent(at.step)),
    }
}

/// f32 or f64 values that all lie on a narrower grid were narrower once.
fn by_grid(dump: &Sited, at: At, extent: Extent) -> Result<Known, Failure> {
    let values = dump.matrix::<f64>(at, extent)?;
    let on = |storage: Storage| values.iter().all(|&x| storage.holds(x));
    let (contract, why) = if on(Storage::Bf16) {
        (RoundingContract::EAGER_BF16, "every value is a bf16")
    } else if on(Storage::F16) {
        (RoundingContract::EAGER_F16, "every value is an f16")
    } else if on(Storage::F32) {
        (RoundingContract::EAGER_F32, "its values are f32")
    } else {
        // An engine that stores f64 may still compute in f32 here and there, as transformers does.
        (RoundingContract::EAGER_F32, "its values are f64, its steps at least f32")
    };
    Ok(Known::of(contract, format!("{why} at {at}")))
}

/// A contract's name, or a bare type's.
pub fn named(text: &str) -> Result<RoundingContract, Failure> {
    Ok(match text {
        "f64" => RoundingContract::IDEAL,
        "f32" => RoundingContract::EAGER_F32,
        "bf16" => RoundingContract::EAGER_BF16,
        "f16" => RoundingContract::EAGER_F16,
        _ => {
            let help =
                "give f64, f32, bf16 or f16, or a contract, then `,field=value` for each point that is otherwise";
            return text.parse().map_err(|error| Failure::from(error).help(help));
        }
    })
}

/// Whether a site has the activations' type: the router's are f32 in any case.
fn is_activation(site: Site) -> bool {
    matches!(site, Site::Embedding | Site::FinalNorm | Site::Layer(_, LayerSite::Output))
}
