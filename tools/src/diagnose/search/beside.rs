//! What is assumed beside a hypothesis, so that the two together explain what neither does.

use reference::Site;

use super::kinds;
use crate::diagnose::catalogue::mistake::{Assumed, Change};

/// An activation is another in the networks of one kind alone.
pub(in crate::diagnose) fn in_networks(kind: &str) -> Assumed {
    Assumed::everywhere(&kinds::ACTIVATION_IN, Change::Reading("activation_in", kind.to_owned()))
}

/// What a site shows is not taken behind it.
pub(in crate::diagnose) fn unseen(site: Site) -> Assumed {
    Assumed::everywhere(&kinds::UNSEEN, Change::Unseen(site))
}
