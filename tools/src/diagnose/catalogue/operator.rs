//! The operator of a site, whichever layer it is in.

use reference::Site;
use reference::site::VisionSite;

/// The operator of a site, whichever layer and pass it is of.
pub(in crate::diagnose) const fn in_any_layer(site: Site) -> Site {
    match site {
        Site::Layer(_, site) => Site::Layer(0, site),
        Site::Vision(_, VisionSite::Layer(_, site)) => Site::Vision(0, VisionSite::Layer(0, site)),
        Site::Vision(_, site) => Site::Vision(0, site),
        other => other,
    }
}
