//! How a candidate stands to its exact twin, in words.

use reference::Real;

use crate::judge::exact::{Bits, Difference, Exactness};

/// How many values and sites are the twin's.
pub(super) fn sentence(exact: &Exactness) -> String {
    let ((count, equal), sites) = (exact.values(), exact.sites.len());
    let alike = sites - exact.differing().count();
    format!("exact at {alike} of {sites} sites: {equal} of {count} values are bit for bit what sums in this order give")
}

/// How many of a site's values differ, and the first that does.
pub(super) fn difference(bits: &Bits) -> String {
    let (of, unequal) = (bits.count, bits.count - bits.equal);
    let first = bits.first.as_ref().map_or_else(String::new, |Difference { index, candidate, twin }| {
        let bits = |x: f64| f32::of(x).to_bits();
        let (a, b) = (bits(*candidate), bits(*twin));
        format!(", the first at {index:?}: candidate {candidate:e} ({a:#010x}), twin {twin:e} ({b:#010x})")
    });
    format!("{unequal} of {of} values differ{first}")
}
