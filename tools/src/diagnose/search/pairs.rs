//! Which channels of a head form a pair that rotates, where no known mistake has it.

use reference::LayerSite::{KRope, QRope};
use reference::Site;

use super::{Bench, kinds};
use crate::diagnose::catalogue::mistake::{Assumed, Change};

/// Pairs as wide apart as if all channels rotated, where a rotation is on the way and fewer do.
pub(super) fn search(bench: &Bench<'_, '_>) -> Option<Assumed> {
    let config = bench.config();
    let rotates = bench.suspects.iter().any(|site| matches!(site, Site::Layer(_, QRope | KRope)));
    let change = Change::Reading("rope_pair", "half_head".to_owned());
    (rotates && config.rotary_dim < config.head_dim).then(|| Assumed::everywhere(&kinds::ROPE_PAIR, change))
}
