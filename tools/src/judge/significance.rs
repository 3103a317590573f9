//! Which structures are significant, of all that are looked at: how improbable one has to be depends on how many there are, and
//! whether a place has other values than the twin in every layer is seen in all of them. There the
//! candidate may round otherwise than its precision says; of a place that is in one layer alone nothing tells that from a fault.
//!
//! What a site says by itself ([`SiteTests`]) can be kept, and put together with others' later.

use std::collections::BTreeMap;

use reference::Site;
use reference::Storage;
use reference::config::Config;
use serde::{Deserialize, Serialize};

use super::structure::chances::{Keys, rows_needed};
use super::structure::{AtSite, DOUBTFUL, Group, Shown, Structure, Tested, is_peer};

/// How often a right candidate's run may have any suspicious structure.
const FALSE_SUSPICION: f64 = 1e-6;

/// What was added up of all passes.
#[derive(Default)]
pub struct Structures {
    sites: BTreeMap<Site, AtSite>,
}

/// What a site says of structure by itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SiteTests {
    /// Sites on the way to it that the candidate does not show.
    way: Vec<Site>,
    /// Tests of rows, and of columns.
    count: [usize; 2],
    /// Whether it has other values than the twin, as far as it tells itself: it does not vouch for its peers.
    is_doubtful: bool,
    /// The structures that are significant if little else is looked at.
    possible: Vec<Structure>,
    /// How many values are others because of keys and values that are, if those are told and many: few are enough where it is so
    /// in every layer.
    read: Option<(Structure, Keys)>,
    /// What was added up there, if there are any.
    added: Option<AtSite>,
    /// How many of its tokens chose each expert; what is kept of a site does without.
    #[serde(skip)]
    visits: BTreeMap<usize, usize>,
}

/// What is suspicious, and how much there was to see it by.
#[derive(Debug, Clone, Default)]
pub(crate) struct Significant {
    /// The structures.
    pub(crate) structures: Vec<(Site, Structure)>,
    /// The probability that is suspicious in a group of rows.
    pub(crate) limit: f64,
    /// By site, how many tokens that differ from one another each expert was chosen for.
    pub(crate) visits: BTreeMap<Site, BTreeMap<usize, usize>>,
}

impl Structures {
    /// Whether values that are stored so are looked at.
    pub(super) fn are_looked_at(storage: Storage) -> bool {
        matches!(storage, Storage::Bf16 | Storage::F16)
    }

    /// Adds a pass. Values that are stored in f32 are not looked at: their bounds see what could be told here.
    pub fn add(&mut self, config: &Config, shown: &Shown<'_>) {
        let Shown { site, own, tokens, .. } = *shown;
        if !Structures::are_looked_at(shown.storage)
            || shown.replays.is_empty()
            || tokens == 0
            || own.nrows() % tokens != 0
            || own.ncols() == 0
        {
            return;
        }
        let each = own.nrows() / tokens;
        let head = if site.has_heads() { site.head_dim(config) } else { own.ncols() };
        self.sites.entry(site).or_insert_with(|| AtSite::new(shown)).add(shown, each, head);
    }

    /// Everything that is looked at, whether or not it is suspicious, with the probability that a right candidate has it.
    pub fn looked_at(&self) -> impl Iterator<Item = (Site, Structure)> {
        self.sites.iter().flat_map(|(site, at)| at.tests().into_iter().map(|tested| (*site, tested.found)))
    }

    /// What each site says by itself.
    pub(super) fn tests(self) -> BTreeMap<Site, SiteTests> {
        self.sites.into_iter().map(|(site, at)| (site, SiteTests::of(at))).collect()
    }
}

impl SiteTests {
    /// Whether so many values are not the twin's that it is no chance, of the precision or of something else.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    fn of(at: AtSite) -> Self {
        let tests = at.tests();
        let columns = tests.iter().filter(|tested| is_of_column(&tested.found)).count();
        // Sites of a kind that has no such structure: there, the precision is seen to be what it is taken for.
        let doubtful = DOUBTFUL / tests.len().max(1) as f64;
        let is_doubtful =
            |Tested { found, is_large }: &Tested| *is_large && found.gain.is_none() && found.probability <= doubtful;
        let is_possible = |tested: &&Tested| tested.is_large && tested.found.probability <= limit(1);
        let possible: Vec<Structure> = tests.iter().filter(is_possible).map(|tested| tested.found).collect();
        let is_read =
            |tested: &&Tested| tested.is_large && tested.found.of == Group::All && tested.found.gain.is_none();
        let read = tests.iter().find(is_read).map(|tested| tested.found).zip(at.keys());
        SiteTests {
            way: at.way.clone(),
            count: [tests.len() - columns, columns],
            is_doubtful: tests.iter().any(is_doubtful),
            visits: at.visits(),
            added: (!possible.is_empty() || read.is_some()).then_some(at),
            possible,
            read,
        }
    }
}

/// What is suspicious at a site.
pub(super) struct Suspicion {
    pub(super) structures: Vec<Structure>,
    /// Whether the place has other values than the twin in every layer.
    pub(super) is_everywhere: bool,
}

/// What is suspicious in what sites say, by site.
pub(super) fn found(tests: &BTreeMap<Site, SiteTests>) -> BTreeMap<Site, Suspicion> {
    let Significant { structures, limit, .. } = Significant::of(tests);
    let mut found: BTreeMap<Site, Vec<Structure>> = BTreeMap::new();
    for (site, structure) in structures {
        found.entry(site).or_default().push(structure);
    }
    for (site, structure) in in_all_layers(tests, limit) {
        let of_site = found.entry(site).or_default();
        of_site.retain(|found| found.of != structure.of || found.gain.is_some());
        of_site.push(structure);
    }
    let suspicion = |(site, mut structures): (Site, Vec<Structure>)| {
        let added = tests[&site].added.as_ref();
        added.expect("what is significant is possible").narrow(&mut structures, limit);
        let strays = |other: Site| tests[&other].is_doubtful || tests[&other].read.is_some();
        let is_everywhere = peers(tests, site).next().is_some() && strays(site) && peers(tests, site).all(strays);
        (site, Suspicion { structures, is_everywhere })
    };
    found.into_iter().map(suspicion).collect()
}

/// What would be suspicious if little else were looked at, and is not as much is: of each site the least probable.
pub(super) fn hints(tests: &BTreeMap<Site, SiteTests>) -> BTreeMap<Site, Structure> {
    let least = |(site, own): (&Site, &SiteTests)| {
        let possible = own.possible.iter().filter(|found| says_something(tests, *site, found));
        Some((*site, *possible.min_by(|one, other| one.probability.total_cmp(&other.probability))?))
    };
    tests.iter().filter_map(least).collect()
}

/// Where values are others in every layer because of keys and values that tokens read of one another: each layer may have them by
/// itself, all together may not.
fn in_all_layers(tests: &BTreeMap<Site, SiteTests>, limit: f64) -> Vec<(Site, Structure)> {
    let together = |(site, own): (&Site, &SiteTests)| {
        let others: Option<Vec<(Structure, Keys)>> = peers(tests, *site).map(|other| tests[&other].read).collect();
        let ((found, own), others) = own.read.zip(others.filter(|others| !others.is_empty()))?;
        let keys = Keys::together(others.into_iter().map(|(_, keys)| keys).chain([own]))?;
        Some((*site, Structure { probability: keys.chance(), ..found }))
    };
    tests.iter().filter_map(together).filter(|(_, found)| found.probability <= limit).collect()
}

/// Whether a structure says something of a site: a gain does, and other values where there are peers that vouch for the precision.
fn says_something(tests: &BTreeMap<Site, SiteTests>, site: Site, found: &Structure) -> bool {
    found.gain.is_some() || peers(tests, site).next().is_some()
}

/// The same place in other layers, behind the same operators.
fn peers(tests: &BTreeMap<Site, SiteTests>, site: Site) -> impl Iterator<Item = Site> {
    let way = |site: Site| tests[&site].way.iter().filter(|site| is_computed(**site));
    let is_as_long = move |other: Site| way(other).count() == way(site).count();
    let is_alike = move |other: Site| way(other).zip(way(site)).all(|(one, other)| is_peer(*one, *other));
    let others = tests.keys().copied().filter(move |other| *other != site && is_peer(*other, site));
    others.filter(move |other| is_as_long(*other) && is_alike(*other))
}

impl Significant {
    /// Everything that is suspicious in what sites say, the same values' among others, too.
    pub(super) fn of(tests: &BTreeMap<Site, SiteTests>) -> Self {
        // Columns are many: they have a half of it for themselves.
        let [of_rows, of_columns] = [0, 1].map(|which| limit(tests.values().map(|site| site.count[which]).sum()));
        let is_significant = |(site, found): &(Site, Structure)| {
            let limit = if is_of_column(found) { of_columns } else { of_rows };
            found.probability <= limit && says_something(tests, *site, found)
        };
        let possible = tests.iter().flat_map(|(site, own)| own.possible.iter().map(|found| (*site, *found)));
        Significant {
            structures: possible.filter(is_significant).collect(),
            limit: of_rows,
            visits: tests.iter().map(|(site, own)| (*site, own.visits.clone())).collect(),
        }
    }

    /// How many tokens a group of rows has at least that can be suspicious.
    pub(crate) fn rows_needed(&self) -> usize {
        rows_needed(self.limit)
    }
}

/// Whether a site on a way is of more than rows that are looked up.
fn is_computed(site: Site) -> bool {
    !matches!(site, Site::Embedding | Site::InputsEmbeds)
}

fn is_of_column(found: &Structure) -> bool {
    matches!(found.of, Group::Channel(_))
}

/// How improbable each of so many structures has to be: a half of what all rows, and all columns, have together.
fn limit(tests: usize) -> f64 {
    FALSE_SUSPICION / 2.0 / tests.max(1) as f64
}

/// How many tokens of a group are enough, where so many structures are looked for.
pub(crate) fn rows_needed_among(tests: usize) -> usize {
    rows_needed(limit(tests))
}
