//! A token's own block that is preferred, and not forced.
//!
//! ```text
//! f ∈ C(i) where m(i,f) + b is among the K largest, with m(i,c) of the others        solved for b; right is b = ∞
//! ```
//!
//! of a token i, its own block f and the maxima m \[choices·n, blocks\]. Each row says whether b is more or less than what its own
//! block is short of the best that was not chosen, or of the least that was.

use fixtures::names::at::At;
use reference::{LayerSite, RoundingContract, Site};

use super::barred::{FEWEST, TIES, sets};
use crate::diagnose::catalogue::assumption::Assumption;
use crate::failure::Failure;
use crate::judge::comparison::Comparison;
use crate::judge::rechosen::Rechosen;

/// What is said of a pass whose tokens stand behind so many others.
pub(super) fn describe(
    (comparison, assumption): (&Comparison<'_>, &Assumption),
    at: At,
    pass: &Rechosen,
    before: usize,
) -> Result<Option<String>, Failure> {
    let Some(layer) = at.site.layer() else { return Ok(None) };
    let Some(index) = assumption.config(comparison.compared.config, layer).index else { return Ok(None) };
    let wanted = Site::Layer(layer, LayerSite::BlockMax);
    let is_shown = |site: &LayerSite| comparison.compared.candidate.has(At { site: Site::Layer(layer, *site), ..at });
    let Some(behind) = [LayerSite::Attention, LayerSite::Residual, LayerSite::Output].into_iter().find(is_shown) else {
        return Ok(None);
    };
    let mut rerun = comparison.under(assumption, comparison.around(at.site), |verification| {
        verification.rerun(RoundingContract::IDEAL, Site::Layer(layer, behind), &[wanted])
    })?;
    let (own, candidate) = (sets(&pass.own), sets(&pass.candidate));
    let first = before * index.choices;
    let Some(maxima) = rerun.beside.remove(&wanted).filter(|m| m.nrows() >= first + own.len()) else {
        return Ok(None);
    };
    let (mut least, mut most) = (f64::NEG_INFINITY, f64::INFINITY);
    let (mut rows, mut lost) = (Vec::new(), 0);
    for (row, (own, candidate)) in own.iter().zip(&candidate).enumerate() {
        let (m, local) = (maxima.row(first + row), (before + row % pass.tokens.max(1)) / index.blocks.size);
        let visible = 0..=local;
        let others = |is_chosen: bool| {
            let of = visible.clone().filter(move |block| *block != local && candidate.contains(block) == is_chosen);
            of.map(move |block| m[block])
        };
        let worst = others(true).fold(f64::INFINITY, f64::min);
        let best = others(false).fold(f64::NEG_INFINITY, f64::max);
        if candidate.contains(&local) {
            least = least.max(best - m[local]);
        } else {
            most = most.min(worst - m[local]);
            lost += 1;
        }
        rows.push((own != candidate, worst >= best));
    }
    let off = rows.iter().filter(|(is_off, _)| *is_off).count();
    let against = rows.iter().filter(|(_, is_best)| !is_best).count();
    let is_one = least <= most && most.is_finite() && least > 0.0;
    let is_told = is_one && lost >= FEWEST && TIES * against <= rows.len();
    Ok(is_told.then(|| {
        format!(
            "a token's own block is not forced, but has more by a number between {least:.4} and {most:.4}: it is not chosen \
             in {lost} of {off} choices that are off"
        )
    }))
}
