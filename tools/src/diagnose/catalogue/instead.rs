//! A tensor that holds another site's values.

use std::collections::BTreeMap;

use reference::Site;

use super::operator::in_any_layer;
use crate::report::figures::numbered;

/// A site whose tensor holds another's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instead {
    /// The site that it is named for.
    pub named: Site,
    /// The one whose values it has, if that is known.
    pub is: Option<Site>,
    /// Whether it is read as that one's, which has no tensor of its own.
    pub is_read: bool,
}

/// In words: what is alike in several layers once.
pub(super) fn said(all: &[Instead]) -> String {
    let mut alike: BTreeMap<_, Vec<(Site, Site)>> = BTreeMap::new();
    for (named, is) in all.iter().filter_map(|one| Some((one.named, one.is?))) {
        let apart = named.layer().zip(is.layer()).map(|(named, is)| named.cast_signed() - is.cast_signed());
        alike.entry((in_any_layer(named), in_any_layer(is), apart)).or_default().push((named, is));
    }
    let each = alike.into_values().map(|some| {
        let (named, is) = some[0];
        let layers: Vec<usize> = some[1..].iter().filter_map(|(named, _)| named.layer()).collect();
        let also =
            if layers.is_empty() { String::new() } else { format!(", and so in {}", numbered("layer", &layers)) };
        format!("{named} has the values of {is}{also}")
    });
    each.collect::<Vec<_>>().join("; ")
}
