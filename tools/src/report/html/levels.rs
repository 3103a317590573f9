//! Pictures as text: the page draws them.

use ndarray::Array2;

/// The alphabet in which levels are written, a character each.
const LEVELS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// A picture's levels, a character each.
pub(super) fn levels(map: &Array2<u8>) -> String {
    map.iter().map(|level| char::from(LEVELS[usize::from(*level)])).collect()
}
