//! Prompts that were run one after another, each call's tokens beside what it computed: a list of dictionaries, one a prompt.
//!
//! Calls of a prompt in chunks look the same. Which of both it is, the second call's values tell: they are nearer to what the
//! reference computes of its tokens alone, or of the first call's before them.

use fixtures::activations::rows::inferred::Fed;
use fixtures::names::families::is_told;
use fixtures::names::sited::Sited;
use ndarray::{Array2, s};
use reference::{Semantics, Site};

use super::computed::{Computed, NEARER, off};
use super::inputs;
use super::model::Model;
use super::window::rows_of;
use crate::failure::Failure;

/// The prompts; `None` where calls have no tokens of their own, or go on from each other.
pub(super) fn prompts(values: &Sited, reading: (&Model, &Semantics)) -> Result<Option<Vec<Fed>>, Failure> {
    let Some(each) = inputs::of_calls(values)? else { return Ok(None) };
    let Some((site, shown)) = latest(values, each[1].len(), reading.0)? else { return Ok(None) };
    let behind = [&each[0][..], &each[1]].concat();
    let [alone, behind] = [&each[1], &behind].map(|tokens| Computed::at(site, tokens, reading));
    let (Some(alone), Some(behind)) = (alone?, behind?) else { return Ok(None) };
    let behind = behind.slice(s![each[0].len().., ..]).to_owned();
    let [alone, behind] = [&alone, &behind].map(|computed| off(shown.view(), computed.view()));
    Ok((alone <= NEARER * behind).then(|| each.iter().map(|tokens| Fed::new(tokens, &[])).collect()))
}

/// What the second call, of so many rows, shows last of what depends on the tokens before, and where.
fn latest(values: &Sited, rows: usize, model: &Model) -> Result<Option<(Site, Array2<f64>)>, Failure> {
    let config = model.checkpoint.config();
    let is_row = |site: &Site| is_told(*site, config) && !site.is_choice() && *site < Site::LmHead;
    let sites: Vec<Site> = Site::all(config).filter(is_row).collect();
    for site in sites.into_iter().rev() {
        if let Some(read) = rows_of(values, (1, rows), site)? {
            return Ok(Some((site, read)));
        }
    }
    Ok(None)
}
