//! Probes look at a model's values while it runs, and may put others in their place.

use ndarray::Array2;

use crate::site::Site;
use crate::tracked::Tracked;

/// Something that is told of every value of a model, site by site, in the order in which a token meets them.
pub trait Probe<T> {
    /// The model computed `value` at `site`, and goes on with what is left there. A probe that puts a candidate's own
    /// value there makes the next operator start from the candidate's inputs: that is how one operator is judged alone.
    /// Scores and single experts are only shown.
    fn visit(&mut self, site: Site, value: &mut Tracked<T>);

    /// The model chose, for each row of `scores`, the columns in the row of `chosen`, and goes on with what is left
    /// there. The scores are what the choice was made by, with their error. Where fewer could be chosen, [`crate::site::NONE`] stands for
    /// the rest.
    fn choose(&mut self, site: Site, scores: &Tracked<T>, chosen: &mut Array2<usize>);

    /// Of a group, one rank has `value` at a site where each has a part: the first of them, the next, and so on, and then the
    /// model's own value is visited, which is put together of all.
    fn of_rank(&mut self, _rank: usize, _site: Site, _value: &Tracked<T>) {}

    /// Whether a value that is only made on request is wanted.
    fn wants(&self, _site: Site) -> bool {
        false
    }

    /// Whether a value that may go unrounded into the next operator is stored.
    fn stores(&self, _site: Site) -> bool {
        true
    }

    /// The rows of the head's output that are looked at, if not all: the others are not made, and are zero.
    fn rows_of_head(&self) -> Option<Vec<usize>> {
        None
    }

    /// Whether nothing that comes later is looked at: then the run ends before its next product, with [`crate::Error::Ended`].
    fn has_ended(&self) -> bool {
        false
    }
}

/// Looks at nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProbe;

impl<T> Probe<T> for NoProbe {
    fn visit(&mut self, _: Site, _: &mut Tracked<T>) {}

    fn choose(&mut self, _: Site, _: &Tracked<T>, _: &mut Array2<usize>) {}
}
