//! Sizes that no machine can hold, refused before anything is allocated for them.

/// Many times those of any model that was published: what has more is a mistake.
pub(super) const MOST_LAYERS: usize = 1 << 12;

/// Of all layers together, in the same way.
pub(super) const MOST_EXPERTS: usize = 1 << 18;

/// Elements of a tensor, in the same way: half a PiB in bf16.
pub(super) const MOST_ELEMENTS: u128 = 1 << 48;

/// The elements of a tensor of these extents.
pub(super) fn elements(extents: &[usize]) -> u128 {
    extents.iter().fold(1, |product: u128, &extent| product.saturating_mul(extent as u128))
}
