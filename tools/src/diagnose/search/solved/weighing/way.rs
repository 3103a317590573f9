//! Ways to weigh keys that are not attention's.

use std::ops::Range;

/// Keys of a split that is put together with others.
const SPLITS: [usize; 6] = [8, 16, 32, 64, 128, 256];

/// Keys of zeros that are seen beside the others, as of shorter images that are filled up to the longest one's length.
const ZEROS: Range<usize> = 1..65;

/// The longest run of keys that is looked for wherever it begins, and the lengths of longer ones: pages of a cache.
const LONGEST: usize = 16;
const PAGES: [usize; 3] = [32, 64, 128];

/// Keys from one to before another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::diagnose) struct Run {
    pub(in crate::diagnose) from: usize,
    pub(in crate::diagnose) to: usize,
}

/// How a token weighs keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::diagnose) enum Way {
    /// All but some.
    Without(Run),
    /// Some whose keys and values are zeros.
    Zeroed(Run),
    /// One that it must not see, too.
    Ahead(usize),
    /// Some alone.
    Only(Run),
    /// With so many of zeros.
    Zeros(usize),
    /// Splits of so many, put together otherwise than by their sums.
    Split(Merge, usize),
}

/// How splits of keys are put together, or what follows from one to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::diagnose) enum Merge {
    /// Their means by their largest scores alone.
    Unsummed,
    /// The mean of their means.
    Averaged,
    /// The sums of values are not scaled again where a split has a larger score than those before.
    ValuesKept,
    /// The sums of weights are not.
    WeightsKept,
    /// Neither are.
    BothKept,
}

/// All of them.
const MERGES: [Merge; 5] = [Merge::Unsummed, Merge::Averaged, Merge::ValuesKept, Merge::WeightsKept, Merge::BothKept];

impl Run {
    pub(in crate::diagnose) fn one(key: usize) -> Self {
        Run { from: key, to: key + 1 }
    }

    pub(super) fn len(self) -> usize {
        self.to.saturating_sub(self.from)
    }

    /// What it has in common with another.
    pub(super) fn within(self, other: Run) -> Self {
        let from = self.from.max(other.from);
        Run { from, to: self.to.min(other.to).max(from) }
    }
}

impl Way {
    /// Those that a token may have that must see `span` of so many keys, the plain ones first.
    pub(super) fn all(span: Run, row: usize, keys: usize) -> Vec<Way> {
        let several = span.len() > 1;
        let single = (span.from..span.to).filter(|_| several).map(Run::one);
        let lengths = (2..=LONGEST).chain(PAGES);
        let runs: Vec<Run> =
            lengths.flat_map(|length| (span.from..span.to).map(move |from| Run { from, to: from + length })).collect();
        let inside = |run: &Run| run.to <= span.to && run.len() < span.len();
        let from = (span.from + 1..span.to).map(|from| Run { from, ..span });
        let before = (span.from + 1..span.to).map(|to| Run { to, ..span });
        let longer = (span.to + 1..=keys).map(|to| Run { to, ..span });
        let earlier = (0..span.from).map(|from| Run { from, ..span });
        // A window that ends alike on both sides of a token.
        let windows = (1..keys).map(|by| Run { from: row.saturating_sub(by), to: row + by + 1 }.within(span));
        let windows = windows.filter(|run| run.from > span.from || run.to < span.to);
        let mut all: Vec<Way> = single.clone().map(Way::Without).collect();
        all.extend(single.map(Way::Zeroed));
        all.extend(from.chain(before).chain(windows).chain(longer).chain(earlier).map(Way::Only));
        all.push(Way::Only(Run { from: 0, to: keys }));
        all.extend((0..span.from).chain(span.to..keys).map(Way::Ahead));
        all.extend(ZEROS.map(Way::Zeros));
        let sizes = SPLITS.into_iter().filter(|size| *size < span.len());
        all.extend(sizes.flat_map(|size| MERGES.map(|merge| Way::Split(merge, size))));
        // What is longer, and ends before the token's own key.
        let up_to = (span.from + 1..span.to.saturating_sub(LONGEST + 1)).map(|from| Run { from, to: span.to - 1 });
        all.extend(up_to.map(Way::Without));
        let clear = |run: &Run| run.from > span.from && run.to < span.to;
        all.extend(runs.iter().copied().filter(inside).filter(clear).map(Way::Without));
        all.extend(runs.into_iter().filter(inside).map(Way::Zeroed));
        all
    }

    /// How many numbers it takes to say it.
    pub(super) fn is_plain(self) -> bool {
        match self {
            Way::Without(run) | Way::Zeroed(run) => run.len() == 1,
            Way::Ahead(_) | Way::Only(_) | Way::Zeros(_) | Way::Split(..) => true,
        }
    }
}
