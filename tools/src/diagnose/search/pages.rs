//! Pages of the cache of keys and values, one of which is another.

use reference::LayerSite::Context;
use reference::Site;
use reference::semantics::SharedPage;

use super::{Bench, kinds};
use crate::diagnose::catalogue::attention::PAGES;
use crate::diagnose::catalogue::mistake::{Assumed, Change, Clue};

/// Rows of a cache that has no pages.
const SMALL: [usize; 2] = [1, 2];

/// Pages of a size that are tried in another's place, the nearest first.
const OTHERS: usize = 16;

/// The page of the first token that is off, which sees its own key, as each other page, where attention is on the way.
pub(super) fn search(bench: &Bench<'_, '_>, clue: Clue) -> Vec<Assumed> {
    if !bench.suspects.iter().any(|site| matches!(site, Site::Layer(_, Context))) {
        return Vec::new();
    }
    let assumed =
        |page: SharedPage| Assumed::everywhere(&kinds::SHARED_PAGE, Change::Reading("shared_page", page.to_string()));
    SMALL.into_iter().chain(PAGES).flat_map(|size| others(size, clue)).map(assumed).collect()
}

/// Those that have been written, at least in part.
fn others(size: usize, clue: Clue) -> impl Iterator<Item = SharedPage> {
    let page = clue.position / size;
    let mut others: Vec<usize> = (0..clue.tokens.div_ceil(size)).filter(|of| *of != page).collect();
    others.sort_by_key(|of| of.abs_diff(page));
    others.truncate(OTHERS);
    others.into_iter().map(move |of| SharedPage { size, page, of })
}
