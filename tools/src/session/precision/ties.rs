//! Which way tensor cores' operands went that are as far from one TF32 as from the next: of 8,192 one is, and these alone tell.

use reference::rounding::Autocast;
use reference::storage::Tf32;
use reference::{RoundingContract, Storage};

use crate::failure::Failure;
use crate::judge::compared::Compared;
use crate::judge::profile::FoundPrecision;

/// What was found, with ties away from 0 where more of all values are that twin's.
pub(super) fn found(compared: &Compared<'_>, found: FoundPrecision) -> Result<FoundPrecision, Failure> {
    let Some(away) = away(found.contract) else { return Ok(found) };
    if compared.equal_in_all(away)? <= compared.equal_in_all(found.contract)? {
        return Ok(found);
    }
    let agreement = compared.agreement_at(away, |_| true)?;
    let (share, bits) = agreement.unwrap_or((found.share, found.bits));
    Ok(FoundPrecision { contract: away, share, bits, ..found })
}

/// The same contract with ties away from 0, where operands go to the nearest TF32.
fn away(contract: RoundingContract) -> Option<RoundingContract> {
    let (even, away) = (Storage::Tf32(Tf32::Rn), Storage::Tf32(Tf32::Rna));
    match (contract.autocast, contract.convolutions) {
        (Autocast::Tf32, _) => Some(RoundingContract { autocast: Autocast::Tf32Rna, ..contract }),
        (_, convolutions) if convolutions == even => Some(RoundingContract { convolutions: away, ..contract }),
        _ => None,
    }
}
