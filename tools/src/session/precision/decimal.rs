//! Values that were rounded to a few decimals when they were saved, as text or by `np.round`: no profile has such a grid.

use std::collections::BTreeSet;

use fixtures::names::at::At;
use fixtures::names::sited::Sited;
use reference::{Site, Storage};

use crate::failure::Failure;

/// Digits behind the point, at most: more are as fine as f32.
const MOST: i32 = 9;

/// How many times as far apart as numbers of f32 decimals are, at least, at most of the values: others lie on any grid.
const COARSER: f64 = 8.0;

/// Different values that are all decimals by no chance, at least.
const FEWEST: usize = 16;

/// Sites that are looked at, the first: what saves one with few decimals saves all so, and of a dump that is far away no more than these
/// is fetched.
const SITES: usize = 8;

/// Reads the first values of a site.
type FirstValues = fn(&Sited, At) -> Result<Vec<f64>, Failure>;

/// Refuses a dump that has values with few decimals: each is known to half a unit of the last, and what an operator makes of them is then
/// not what it made of those that it read.
pub(super) fn require_none(dump: &Sited, values: FirstValues) -> Result<(), Failure> {
    let is_computed = |site: Site| !site.is_choice() && !matches!(site, Site::Embedding | Site::InputsEmbeds);
    for at in dump.sites().filter(|at| is_computed(at.site)).take(SITES) {
        if let Some(digits) = decimals(&values(dump, at)?) {
            let path = dump.dump().path().display();
            let problem = format!(
                "{path}: values of {at} have {digits} decimals: they were rounded when they were saved, by up to {:e}, expected \
                 values as they were computed",
                0.5 * 10.0_f64.powi(-digits)
            );
            let help = "save tensors as they are, with torch.save, np.save or safetensors, not as text or by round()";
            return Err(Failure::new(problem).help(help));
        }
    }
    Ok(())
}

/// How many digits values have behind the point, if these are few, and not by chance. What is on the grid of a narrow type is no such
/// value, nor is 0, of which a mask leaves many.
fn decimals(values: &[f64]) -> Option<i32> {
    let values: Vec<f64> = values.iter().copied().filter(|x| *x != 0.0).collect();
    let different: BTreeSet<u64> = values.iter().map(|x| x.to_bits()).take(1 << 10).collect();
    let is_narrow = |storage: Storage| values.iter().all(|x| storage.holds(*x));
    if different.len() < FEWEST || is_narrow(Storage::Bf16) || is_narrow(Storage::F16) {
        return None;
    }
    (1..=MOST).find(|digits| {
        let unit = 10.0_f64.powi(*digits);
        let is_decimal = |x: f64| {
            let nearest = (x * unit).round() / unit;
            !x.is_finite() || x == nearest || x == Storage::F32.nearest(nearest)
        };
        let is_coarse = |x: &&f64| COARSER * Storage::F32.spacing(**x) < 1.0 / unit;
        values.iter().all(|x| is_decimal(*x)) && 2 * values.iter().filter(is_coarse).count() > values.len()
    })
}
