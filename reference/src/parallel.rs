//! Work that is divided among threads, where it takes much longer than these take to wake.

use rayon::prelude::*;

/// Multiplications, or what takes as long, from which on it does: about a millisecond.
const WORTH: usize = 1 << 21;

/// What elementwise arithmetic and its bounds take of an element, in multiplications of a product.
pub(crate) const ELEMENT: usize = 16;

/// Calls `f` with each item, which are so many multiplications altogether.
pub(crate) fn for_each<I: Send>(items: impl Iterator<Item = I>, multiplications: usize, f: impl Fn(I) + Send + Sync) {
    if multiplications >= WORTH && rayon::current_num_threads() > 1 {
        items.collect::<Vec<I>>().into_par_iter().for_each(f);
    } else {
        items.for_each(f);
    }
}
