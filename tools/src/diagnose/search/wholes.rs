//! Whole numbers that the model does not have and a port may: found by how far a site is from the candidate's under each.

use rayon::prelude::*;
use reference::LayerSite::{self, Context, KRope, Probabilities, Scores};
use reference::Site;

use super::bench::NEARER;
use super::{Bench, kinds};
use crate::diagnose::catalogue::mistake::{Assumed, Change, Mistake};
use crate::diagnose::catalogue::{attention, rotary};

/// A whole number, and where it is looked for.
struct Whole {
    kind: &'static Mistake,
    touches: &'static [LayerSite],
    /// The least and the largest, of so many tokens.
    range: fn(i64) -> (i64, i64),
    /// How many are tried at once, at most: all, where one that is near comes no nearer than another.
    at_once: i64,
    /// The change by one.
    change: fn(i64) -> Change,
}

/// Positions of a tile, at most.
const TILE: i64 = 256;

const ATTENTION: &[LayerSite] = &[Scores, Probabilities, Context];

/// Slots of a cache that are tried, so many times the tokens.
const SLOTS: i64 = 8;

static WHOLES: [Whole; 7] = [
    Whole {
        kind: &attention::WINDOW,
        touches: ATTENTION,
        range: |tokens| (1, tokens - 1),
        at_once: 32,
        change: |window| Change::Reading("window", window.to_string()),
    },
    Whole {
        kind: &attention::PREFIX,
        touches: ATTENTION,
        range: |tokens| (2, tokens - 1),
        at_once: 32,
        change: |prefix| Change::Reading("prefix", prefix.to_string()),
    },
    Whole {
        kind: &kinds::TILE,
        touches: ATTENTION,
        range: |tokens| (2, tokens.min(TILE)),
        at_once: TILE,
        change: |tile| Change::Reading("causal_tile", tile.to_string()),
    },
    Whole {
        kind: &kinds::ZEROS,
        touches: ATTENTION,
        range: |tokens| (tokens + 1, SLOTS * tokens),
        at_once: 24,
        change: |slots| Change::Reading("unfilled", format!("slots:{slots}")),
    },
    Whole {
        kind: &kinds::CACHE_RING,
        touches: ATTENTION,
        range: |tokens| (2, tokens - 1),
        at_once: 64,
        change: |slots| Change::Reading("cache_ring", slots.to_string()),
    },
    Whole {
        kind: &attention::TEMPERATURE,
        touches: ATTENTION,
        range: |tokens| (1, tokens),
        at_once: 32,
        change: |every| Change::Reading("query_temperature", format!("0.1/{every}")),
    },
    Whole {
        kind: &rotary::KEY_POSITION,
        touches: &[KRope],
        range: |_| (-64, 64),
        at_once: 128,
        change: |by| Change::Reading("key_shift", by.to_string()),
    },
];

/// Every number of the operators on the way to a site that comes much nearer than none.
pub(super) fn search(bench: &Bench<'_, '_>) -> Vec<Assumed> {
    let tokens = i64::try_from(bench.tokens().len()).unwrap_or(i64::MAX);
    // What is left of a cache tells its size where calls leave more and less.
    let is_told = |whole: &&Whole| bench.calls().len() > 1 || whole.kind.name != kinds::ZEROS.name;
    let touched = WHOLES.iter().filter(|whole| whole.is_touched(bench)).filter(is_told);
    touched.filter_map(|whole| whole.search(bench, tokens)).collect()
}

impl Whole {
    fn is_touched(&self, bench: &Bench<'_, '_>) -> bool {
        let touches = |site: &Site| matches!(site, Site::Layer(_, site) if self.touches.contains(site));
        bench.suspects.iter().any(touches)
    }

    fn assumed(&self, value: i64) -> Assumed {
        Assumed::everywhere(self.kind, (self.change)(value))
    }

    /// The number under which the site is nearest: some over the whole range, then all that are near the best of them.
    fn search(&self, bench: &Bench<'_, '_>, tokens: i64) -> Option<Assumed> {
        let (mut from, mut to) = (self.range)(tokens);
        if to < from {
            return None;
        }
        let off = |value: i64| {
            let values = bench.ideal_under(&[self.assumed(value)]);
            values.map_or(f64::INFINITY, |values| bench.distance(&values))
        };
        loop {
            let step = ((to - from) / self.at_once).max(1);
            let tried: Vec<i64> = (from..=to).step_by(usize::try_from(step).ok()?).collect();
            let all: Vec<(f64, i64)> = tried.into_par_iter().map(|value| (off(value), value)).collect();
            let (least, value) = all.into_iter().min_by(|(a, _), (b, _)| a.total_cmp(b))?;
            if step == 1 {
                return (least <= NEARER * bench.off()).then(|| self.assumed(value));
            }
            (from, to) = ((value - step).max(from), (value + step).min(to));
        }
    }
}
