//! Structure in the disagreements with the twin.
//!
//! What a right candidate has otherwise than its twin is what another order of sums makes of it, so that in every row it might be
//! any of the twin's runs in other orders. Each row's figure is taken in units of what its own runs have, and its probability is
//! the share of the runs that are as far, in all rows that are looked at together; those of these rows go together by Fisher's
//! method. A gain of a percent in one expert moves half of the values that went through it, and is the furthest in every row.
//!
//! Rows are taken to err independently of one another: a token that is repeated, whose rows are the same in every run, counts
//! once. They are not taken to err alike: rows of an expert are put next to each other alone, because those of others may have
//! none of what theirs have. So a right candidate has a probability of at most α with a probability of at most α.
//!
//! Two figures are put next to those of the runs: how many values are not the twin's, and by how much values are larger than
//! these (the gain Σ o·d / Σ o²); in all rows of a site, in those where an expert was chosen, in each head, and of each column
//! how many values are not the twin's. The tests are fixed beforehand, and share one probability of false suspicion. What is
//! significant must also be large: three times what any of the runs has, and a gain a quarter of the unit roundoff, which
//! carries one value in eight to one in four to a neighbour: these are 2·u apart at a power of two. Behind an attention whose
//! roundings are not all known, only gains are looked at, and only those that rows have in common, by Student's t: what is not
//! known has no direction, but goes further than the runs do. Behind one whose keys or values are not shown tokens do not err
//! independently, but these do: how many of them are others tells how many values may be.

pub(crate) mod chances;
mod tally;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use ndarray::{Array2, Axis, s};
use reference::site::{self, VisionSite};
use reference::{Site, Storage};
use serde::{Deserialize, Serialize};

use self::chances::{Keys, LARGE, at_least, common, furthest, is_large, together};
use self::tally::{Part, Tally};
use crate::kept::as_text;

/// How improbable a structure is that is taken for one where others are explained by it: at a place that would vouch for its
/// peers in other layers, and in rows beside those of an expert.
pub(super) const DOUBTFUL: f64 = 1e-3;

/// Values of a site of which a structure is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// All.
    All,
    /// A head's.
    Head(usize),
    /// Those of tokens that chose an expert.
    Expert(usize),
    /// A column's.
    Channel(usize),
}

/// A structure that rounding does not explain.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Structure {
    /// Of which values.
    pub of: Group,
    /// How many values there are.
    pub count: usize,
    /// How many are not the twin's.
    pub unequal: usize,
    /// The most that runs in other orders have.
    pub unequal_most: usize,
    /// By how much values are larger than the twin's, where that is significant.
    pub gain: Option<f64>,
    /// The probability that a right candidate has it.
    pub probability: f64,
}

/// One pass's values at a site, as they are stored.
pub struct Shown<'a> {
    /// The site.
    pub site: Site,
    /// The twin's.
    pub own: &'a Array2<f64>,
    /// The candidate's.
    pub candidate: &'a Array2<f64>,
    /// Those of the twin's runs in other orders, which an f32 holds.
    pub replays: Vec<Array2<f32>>,
    /// What they are stored in.
    pub storage: Storage,
    /// Whether all roundings on the way from the candidate's own values are performed. Those of an attention that keeps its
    /// probabilities to itself depend on where it cuts the keys.
    pub is_known: bool,
    /// How many keys and values are others in each of these runs, where nothing else keeps tokens from erring independently.
    pub read: Option<Vec<usize>>,
    /// Sites on the way here that the candidate does not show.
    pub way: &'a [Site],
    /// Tokens that the candidate shows.
    pub tokens: usize,
    /// What each of these chose, where values come after that.
    pub experts: Option<&'a Array2<usize>>,
}

/// What was added up at a site.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AtSite {
    #[serde(with = "as_text")]
    storage: Storage,
    is_known: bool,
    read: Option<Vec<usize>>,
    /// Whether what differs in a column differs there in each row by itself.
    by_columns: bool,
    pub(super) way: Vec<Site>,
    /// The candidate's, then those of the runs in other orders.
    runs: Vec<Tally>,
    experts: Vec<BTreeSet<usize>>,
    /// Tokens that were added, by what all runs have of them; only needed while tokens are added.
    #[serde(skip)]
    added: HashSet<u64>,
}

/// One figure of a group: where the candidate stands.
pub(super) struct Tested {
    pub(super) found: Structure,
    /// Whether it is as large as it must be.
    pub(super) is_large: bool,
}

impl AtSite {
    /// Nothing yet, of what is shown.
    pub(super) fn new(shown: &Shown<'_>) -> Self {
        AtSite {
            storage: shown.storage,
            is_known: shown.is_known,
            read: shown.read.as_ref().map(|read| vec![0; read.len()]),
            by_columns: !is_of_keys(shown.site) || shown.way.is_empty(),
            way: shown.way.to_vec(),
            runs: vec![Tally::default(); 1 + shown.replays.len()],
            experts: Vec::new(),
            added: HashSet::new(),
        }
    }

    /// Adds the tokens of a pass, whose matrix rows are `each` a token, in heads of so many columns.
    pub(super) fn add(&mut self, shown: &Shown<'_>, each: usize, head: usize) {
        let Shown { own, candidate, replays, tokens, experts, read, .. } = shown;
        self.read = self.read.take().zip(read.as_ref()).map(|(mut all, read)| {
            all.iter_mut().zip(read).for_each(|(sum, count)| *sum += count);
            all
        });
        let is_new = |token: &usize| self.added.insert(content([*own, *candidate], replays, *token, each));
        let new: Vec<usize> = (0..*tokens).filter(is_new).collect();
        let rows: Vec<usize> = new.iter().flat_map(|token| token * each..(token + 1) * each).collect();
        let of_new = |all: &Array2<f64>| all.select(Axis(0), &rows);
        let own = of_new(own);
        let of_replay = |run: &Array2<f32>| run.select(Axis(0), &rows).mapv(f64::from);
        let runs = std::iter::once(of_new(candidate)).chain(replays.iter().map(of_replay));
        for (sum, run) in self.runs.iter_mut().zip(runs) {
            sum.extend(Tally::of(&own, &run, each, head));
        }
        let chose = |token| experts.map(|experts| experts.row(token).iter().copied().collect()).unwrap_or_default();
        self.experts.extend(new.into_iter().map(chose));
    }

    /// Keys and values that are others, where tokens err together by these alone.
    pub(super) fn keys(&self) -> Option<Keys> {
        let unequal = |run: &Tally| Part::sum(run.rows.iter().flatten()).unequal;
        let unequal: Vec<usize> = self.runs.iter().map(unequal).collect();
        self.read.as_ref().map(|read| Keys::of(unequal[0], &unequal[1..], read))
    }

    /// How many of the rows chose each expert.
    pub(super) fn visits(&self) -> BTreeMap<usize, usize> {
        let mut visits = BTreeMap::new();
        self.experts.iter().flatten().for_each(|expert| *visits.entry(*expert).or_default() += 1);
        visits
    }

    /// Everything that is looked at, whether or not it is suspicious.
    pub(super) fn tests(&self) -> Vec<Tested> {
        let heads = self.runs[0].rows.first().map_or(0, Vec::len);
        let experts =
            self.experts.iter().flatten().copied().collect::<BTreeSet<usize>>().into_iter().map(Group::Expert);
        let heads = (0..heads).filter(|_| heads > 1).map(Group::Head);
        let groups = std::iter::once(Group::All).chain(experts).chain(heads);
        let of_groups = groups.flat_map(|group| self.of_rows(group, |_| true));
        let columns = (0..self.runs[0].columns.len()).filter(|_| self.by_columns).map(|column| self.of_column(column));
        let is_of_read = |found: &Structure| self.read.is_some() && found.of == Group::All;
        let known = |(found, _): &(Structure, bool)| self.is_known || found.gain.is_some() || is_of_read(found);
        let tested = of_groups.chain(columns).filter(known);
        tested.map(|(found, is_large)| Tested { found, is_large }).collect()
    }

    /// For each of some rows, the probability that a run in another order has as many other values, is as much larger, and as
    /// much smaller, in units of what its row's runs have.
    fn chances(&self, rows: &[Vec<Part>]) -> [Vec<f64>; 3] {
        let smallest = self.storage.unit_roundoff() / 1024.0;
        let unequal = |part: &Part, others: &[&Part]| {
            let mean = others.iter().map(|part| part.unequal as f64).sum::<f64>() / others.len() as f64;
            (part.unequal as f64 + 1.0) / (mean + 1.0)
        };
        let gain = |part: &Part, others: &[&Part]| {
            let square = others.iter().map(|part| part.gain().powi(2)).sum::<f64>() / others.len() as f64;
            part.gain() / square.sqrt().max(smallest)
        };
        [furthest(rows, unequal), furthest(rows, gain), furthest(rows, |part, others| -gain(part, others))]
    }

    /// How many values are not the twin's, and the gain: of a group, in the rows of some tokens.
    fn of_rows(&self, group: Group, is_of: impl Fn(usize) -> bool) -> [(Structure, bool); 2] {
        let chose =
            |row: usize| if let Group::Expert(expert) = group { self.experts[row].contains(&expert) } else { true };
        let rows = (0..self.experts.len()).filter(|row| is_of(*row) && chose(*row));
        let rows: Vec<Vec<Part>> =
            rows.map(|row| self.runs.iter().map(|run| part(&run.rows[row], group)).collect()).collect();
        let totals: Vec<Part> = (0..self.runs.len()).map(|run| Part::sum(rows.iter().map(|row| &row[run]))).collect();
        let [unequal, larger, smaller] = self.chances(&rows).map(|of| together(of.into_iter()));
        let others: Vec<usize> = totals[1..].iter().map(|total| total.unequal).collect();
        let unequal_most = others.iter().copied().max().unwrap_or(0);
        let read = self.read.as_ref().map(|read| Keys::of(totals[0].unequal, &others, read).chance());
        let share = Structure {
            of: group,
            count: totals[0].count,
            unequal: totals[0].unequal,
            unequal_most,
            gain: None,
            probability: read.unwrap_or(unequal),
        };
        let gain = totals[0].gain();
        let strayed = totals[1..].iter().map(|total| total.gain().abs()).fold(0.0, f64::max);
        let far = (2.0 * larger.min(smaller)).min(1.0);
        let probability =
            if self.is_known { far } else { far.max(common(&rows.iter().map(|row| row[0]).collect::<Vec<Part>>())) };
        let of_gain = Structure { gain: Some(gain), probability, ..share };
        let is_gain = gain.abs() > (LARGE * strayed).max(self.storage.unit_roundoff() / 4.0);
        [(share, is_large(totals[0].unequal, &others)), (of_gain, is_gain)]
    }

    /// How many of a column's values are not the twin's. Rows are independent, so that of all that differ anywhere, each is the
    /// candidate's as often as any run's.
    fn of_column(&self, column: usize) -> (Structure, bool) {
        let unequal: Vec<usize> = self.runs.iter().map(|run| run.columns[column]).collect();
        let all: usize = unequal.iter().sum();
        let unequal_most = unequal[1..].iter().copied().max().unwrap_or(0);
        let each = self.runs[0].rows.iter().map(|parts| Part::sum(parts.iter()).count).sum::<usize>();
        let found = Structure {
            of: Group::Channel(column),
            count: each / self.runs[0].columns.len(),
            unequal: unequal[0],
            unequal_most,
            gain: None,
            probability: at_least(unequal[0], all, 1.0 / unequal.len() as f64),
        };
        (found, is_large(unequal[0], &unequal[1..]))
    }

    /// Keeps what says most: heads or channels where few have it, experts where it is theirs alone, else all.
    pub(super) fn narrow(&self, found: &mut Vec<Structure>, limit: f64) {
        let count =
            |is: fn(&Group) -> bool| found.iter().map(|one| one.of).filter(is).collect::<BTreeSet<Group>>().len();
        let heads = (count(|of| matches!(of, Group::Head(_))), self.runs[0].rows.first().map_or(0, Vec::len));
        let channels = (count(|of| matches!(of, Group::Channel(_))), self.runs[0].columns.len());
        let is_part = |(some, all): (usize, usize)| some > 0 && 2 * some <= all;
        let mut experts: Vec<Structure> =
            found.iter().copied().filter(|one| matches!(one.of, Group::Expert(_))).collect();
        experts.sort_by(|a, b| a.probability.total_cmp(&b.probability));
        // What is left of the others once the rows of the first are left out.
        let mut own: Vec<usize> = Vec::new();
        for expert in
            experts.iter().filter_map(|one| if let Group::Expert(expert) = one.of { Some(expert) } else { None })
        {
            let without = |row: usize| own.iter().all(|own| !self.experts[row].contains(own));
            let left = self.of_rows(Group::Expert(expert), without);
            let is_left = own.is_empty() || left.iter().any(|(one, large)| *large && one.probability <= limit);
            if is_left && !own.contains(&expert) {
                own.push(expert);
            }
        }
        let others = |row: usize| own.iter().all(|own| !self.experts[row].contains(own));
        let beside = self.of_rows(Group::All, others);
        let is_theirs = !own.is_empty() && !beside.iter().any(|(one, large)| *large && one.probability <= DOUBTFUL);
        found.retain(|one| match one.of {
            Group::Head(_) => is_part(heads),
            Group::Channel(_) => !is_part(heads) && is_part(channels),
            Group::Expert(expert) => !is_part(heads) && !is_part(channels) && is_theirs && own.contains(&expert),
            Group::All => !is_part(heads) && !is_part(channels) && !is_theirs,
        });
        // A gain says more than how many values it moves.
        let gains: Vec<Group> = found.iter().filter(|one| one.gain.is_some()).map(|one| one.of).collect();
        found.retain(|one| one.gain.is_some() || !gains.contains(&one.of));
    }
}

/// Whether a column is a key, or a block of keys. Where keys are not shown themselves, one that is another moves all of its column.
fn is_of_keys(site: Site) -> bool {
    matches!(site.axes().last(), Some(site::Axis::Positions | site::Axis::Blocks))
}

/// Whether two sites are the same place, but for their layers.
pub(super) fn is_peer(one: Site, other: Site) -> bool {
    match (one, other) {
        (Site::Layer(_, one), Site::Layer(_, other)) => one == other,
        (Site::Vision(_, VisionSite::Layer(_, one)), Site::Vision(_, VisionSite::Layer(_, other))) => one == other,
        _ => false,
    }
}

/// What the twin and all runs have of a token, whose rows are `each` after one another, in a number.
fn content(wide: [&Array2<f64>; 2], runs: &[Array2<f32>], token: usize, each: usize) -> u64 {
    let (mut hasher, rows) = (DefaultHasher::new(), s![token * each..(token + 1) * each, ..]);
    for matrix in runs {
        matrix.slice(rows).iter().for_each(|x| x.to_bits().hash(&mut hasher));
    }
    for matrix in wide {
        matrix.slice(rows).iter().for_each(|x| x.to_bits().hash(&mut hasher));
    }
    hasher.finish()
}

/// A group's part of a row.
fn part(heads: &[Part], group: Group) -> Part {
    match group {
        Group::Head(head) => heads[head],
        _ => Part::sum(heads.iter()),
    }
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.of {
            Group::All => {}
            Group::Head(head) => write!(f, "in head {head}, ")?,
            Group::Expert(expert) => write!(f, "where expert {expert} was chosen, ")?,
            Group::Channel(channel) => write!(f, "in channel {channel}, ")?,
        }
        let Structure { count, unequal, unequal_most, .. } = self;
        if let Some(gain) = self.gain {
            let word = if gain > 0.0 { "larger" } else { "smaller" };
            write!(f, "values are {:.2} % {word} than this precision gives, and ", 100.0 * gain.abs())?;
        }
        write!(f, "{unequal} of {count} are other values, where other orders of sums make at most {unequal_most} so")
    }
}
