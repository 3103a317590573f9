//! How a candidate rounds: from the command line, its manifest, its types, or the grid that its values lie on.

use fixtures::Dtype;
use fixtures::names::at::At;
use fixtures::names::sited::Sited;
use reference::site::Extent;
use reference::{RoundingContract, Site, Storage};

use crate::failure::Failure;

/// A contract, and from where it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// The contract.
    pub contract: RoundingContract,
    /// In words.
    pub from: String,
}

/// The contract of a dump.
pub fn contract_of(dump: &Sited, given: Option<&str>, extent: impl Fn(usize) -> Extent) -> Result<Known, Failure> {
    if let Some(text) = given {
        return Ok(Known { contract: text.parse()?, from: "as given".into() });
    }
    if let Some(text) = dump.dump().manifest().and_then(|manifest| manifest.precision.as_deref()) {
        return Ok(Known { contract: named(text)?, from: "the dump's manifest".into() });
    }
    let activation = dump.sites().find(|at| is_activation(at.site));
    let Some(at) = activation.or_else(|| dump.sites().next()) else {
        return Err(Failure::new("the dump has no activation that is known").help("see --names"));
    };
    match dump.dtype(at) {
        Some(Dtype::Bf16) => Ok(Known { contract: RoundingContract::EAGER_BF16, from: format!("{at} is bf16") }),
        Some(Dtype::F16) => Ok(Known { contract: RoundingContract::EAGER_F16, from: format!("{at} is f16") }),
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
    Ok(Known { contract, from: format!("{why} at {at}") })
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
    matches!(site, Site::Embedding | Site::FinalNorm | Site::Layer(_, reference::LayerSite::Output))
}
