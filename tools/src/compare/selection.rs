//! `--layers` and `--sites` on the command line.

use std::fmt;
use std::ops::Range;

use globset::{Glob, GlobSet, GlobSetBuilder};
use reference::Site;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// Which part of a model is looked at.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(try_from = "Typed", into = "Typed")]
pub struct Selection {
    layers: Option<Range<usize>>,
    sites: Option<GlobSet>,
    typed: Typed,
}

/// What was typed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Typed {
    layers: Option<String>,
    sites: Vec<String>,
}

impl Selection {
    /// From `3`, `3..7`, `..7` or `3..`, and patterns like `layers.*.self_attn.*`.
    pub fn parse(layers: Option<&str>, sites: &[String]) -> Result<Self, Failure> {
        let typed = Typed { layers: layers.map(str::to_owned), sites: sites.to_vec() };
        let layers = layers.map(range).transpose()?;
        let sites = if sites.is_empty() { None } else { Some(patterns("--sites", sites)?) };
        Ok(Selection { layers, sites, typed })
    }

    /// Whether a site is selected.
    pub fn has(&self, site: Site) -> bool {
        let layer = match (&self.layers, site.layer()) {
            (Some(range), Some(layer)) => range.contains(&layer),
            (Some(_), None) => false,
            (None, _) => true,
        };
        layer && self.sites.as_ref().is_none_or(|sites| sites.is_match(site.to_string()))
    }

    /// Whether a site is asked for by a pattern, as those must be that cost more to make.
    pub fn names(&self, site: Site) -> bool {
        self.sites.is_some() && self.has(site)
    }

    /// Whether a name is selected.
    pub fn has_name(&self, name: &str) -> bool {
        match name.parse::<Site>() {
            Ok(site) => self.has(site),
            Err(_) => self.layers.is_none() && self.sites.as_ref().is_none_or(|sites| sites.is_match(name)),
        }
    }

    /// The selected layers, of so many.
    pub fn layers(&self, count: usize) -> Range<usize> {
        let all = self.layers.clone().unwrap_or(0..count);
        all.start.min(count)..all.end.min(count)
    }

    /// Whether everything is.
    pub fn is_all(&self) -> bool {
        self.layers.is_none() && self.sites.is_none()
    }
}

/// The options again, as they were typed.
impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Typed { layers, sites } = &self.typed;
        let layers = layers.iter().map(|layers| format!("--layers {layers}"));
        let typed: Vec<String> = layers.chain(sites.iter().map(|pattern| format!("--sites '{pattern}'"))).collect();
        f.write_str(&typed.join(" "))
    }
}

impl TryFrom<Typed> for Selection {
    type Error = Failure;

    fn try_from(typed: Typed) -> Result<Self, Failure> {
        Selection::parse(typed.layers.as_deref(), &typed.sites)
    }
}

impl From<Selection> for Typed {
    fn from(selection: Selection) -> Self {
        selection.typed
    }
}

fn range(text: &str) -> Result<Range<usize>, Failure> {
    let bad = || {
        Failure::new(format!("--layers {text}: expected a layer or a range of layers"))
            .help("for instance 3, 3..7 (3 to 6), ..7 or 3..")
    };
    let number = |text: &str, default| if text.is_empty() { Ok(default) } else { text.parse().map_err(|_| bad()) };
    let range = match text.split_once("..") {
        None => {
            let layer = number(text, 0)?;
            layer..layer + 1
        }
        Some((from, to)) => number(from, 0)?..number(to, usize::MAX)?,
    };
    if range.is_empty() || text.is_empty() { Err(bad()) } else { Ok(range) }
}

/// The patterns of an option, each of which stands for whole paths; the `model.` before it may be left out.
pub fn patterns(option: &str, sites: &[String]) -> Result<GlobSet, Failure> {
    let mut set = GlobSetBuilder::new();
    for pattern in sites {
        for pattern in [pattern.clone(), format!("model.{pattern}")] {
            let glob = Glob::new(&pattern).map_err(|error| {
                Failure::new(format!("{option} {pattern}: {error}")).help("for instance 'layers.*.self_attn.*'")
            })?;
            set.add(glob);
        }
    }
    set.build().map_err(|error| Failure::new(format!("{option}: {error}")))
}
