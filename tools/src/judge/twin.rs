//! The twin: the reference under a precision, from the candidate's own inputs to each operator.
//!
//! What is deterministic is performed: casts of weights, stored outputs, tables. What is left unknown is the order of sums
//! and the last bit of functions, so that a right candidate equals its twin in all but a few values: how few is predicted by
//! runs of the twin whose sums are drawn in other orders, and so is what structure the disagreements have.

use std::collections::{BTreeMap, HashMap};

use ndarray::Array2;
use reference::models::decoder::Decoder;
use reference::run::Run;
use reference::{LayerSite, Real, RoundingContract, Site, Storage};

use super::agreement::Agreement;
use super::exchanged::Exchanged;
use super::known::{Known, KnownStream, left_by};
use super::lens::Lens;
use super::loaded::Loaded;
use super::masked::{are_masked, are_unshown};
use super::significance::{SiteTests, Structures};
use super::state::{Pass, Phase, State};
use super::structure::Shown;
use super::structure::chances::REPLAYS;
use super::substitution::{Seen, SeenChoice, Substitution, Unshown};
use crate::failure::Failure;

/// Runs in other orders where activations are wide, by which the share of values that differ is predicted.
const REPLAYS_OF_WIDE: u64 = 7;

/// A twin on its way through a model.
pub(crate) struct Twin<'m> {
    model: &'m Decoder<'m>,
    contract: RoundingContract,
    main: State,
    replays: Vec<State>,
    structures: Structures,
    /// What is known since the last residual stream that the candidate shows.
    stream: KnownStream,
    /// The same of what goes into it from the tower.
    features: KnownStream,
}

impl<'m> Twin<'m> {
    /// Of a model whose weights are held as the contract says.
    pub(crate) fn new(model: &'m Decoder<'m>, contract: RoundingContract) -> Self {
        let is_narrow = matches!(contract.shown(), Storage::F16 | Storage::Bf16);
        let replays = if is_narrow { REPLAYS } else { REPLAYS_OF_WIDE };
        let replays = (0..replays).map(|_| State::new(model)).collect();
        Twin {
            model,
            contract,
            main: State::new(model),
            replays,
            structures: Structures::default(),
            stream: KnownStream::SHOWN,
            features: KnownStream::SHOWN,
        }
    }

    /// One that predicts how many values are others by so few runs in other orders, and nothing by none, and says how choices stand, too:
    /// it tells precisions apart.
    pub(crate) fn beside(model: &'m Decoder<'m>, contract: RoundingContract, orders: usize) -> Self {
        Twin { replays: vec![State::new(model); orders], ..Twin::new(model, contract) }
    }

    /// Goes on from a candidate's residual stream.
    pub(crate) fn jump(&mut self, stream: &Array2<f64>) {
        self.stream = KnownStream::SHOWN;
        self.main.jump(stream, &self.contract, true);
        for (replay, seed) in self.replays.iter_mut().zip(1..) {
            replay.jump(stream, &self.contract.reordered(seed), true);
        }
    }

    /// Runs one phase of a forward pass: every site that the candidate shows, and how its values stand.
    pub(crate) fn advance(&mut self, phase: Phase, pass: Pass<'_>, loaded: &Loaded<'_>) -> Result<Stands, Failure> {
        if matches!(phase, Phase::Patches(_)) {
            self.stream = KnownStream::SHOWN;
        }
        if phase == Phase::Start {
            self.stream = std::mem::replace(&mut self.features, KnownStream::SHOWN);
            std::iter::once(&mut self.main).chain(&mut self.replays).for_each(|state| state.truncate(pass.kept()));
        }
        let known = |site| Known::of(site, &self.contract, loaded, self.stream);
        let left = left_by(phase).filter(|stream| !loaded.has(*stream)).map(known);
        let own = went(self.model, &mut self.main, self.contract, (phase, pass, loaded))?;
        let choosing = |own: SeenChoice| {
            let is_known = known(own.site).is_performed && loaded.is_whole();
            Choosing { own, others: Vec::new(), is_known }
        };
        let mut choices: Vec<Choosing> = own.choices.into_iter().map(choosing).collect();
        let Went { values: own, experts, read, .. } = own;
        let mut others = vec![BTreeMap::new(); self.replays.len()];
        let mut replays = vec![Replays::default(); own.len()];
        for ((replay, others), seed) in self.replays.iter_mut().zip(&mut others).zip(1..) {
            let other = went(self.model, replay, self.contract.reordered(seed), (phase, pass, loaded))?;
            choices.iter_mut().zip(other.choices).for_each(|(choice, other)| choice.others.push(other));
            for ((replays, own), other) in replays.iter_mut().zip(&own).zip(other.values) {
                let candidate = loaded.value(own.site)?;
                let keeps = Structures::are_looked_at(loaded.shown_in(own.site, &self.contract, &candidate));
                replays.add(&own.value, &other.value, keeps);
            }
            let count = |(own, other): (&Read, &Read)| (own.0, unequal(&own.1, &other.1));
            others.extend(read.iter().zip(&other.read).map(count));
        }
        let mut agreements = HashMap::new();
        if self.replays.is_empty() {
            let told = choices.iter().filter(|choice| choice.own.unknown.is_none());
            agreements.extend(told.map(|choice| (choice.own.site, choice.own.agreement())));
        }
        let told = choices.iter().filter(|choice| choice.is_known && !choice.others.is_empty());
        let exchanged = told.filter_map(|choice| Some((choice.own.site, Exchanged::of(&choice.own, &choice.others)?)));
        let exchanged = exchanged.collect();
        for (Stored { site, value: own, way }, replays) in own.iter().zip(replays) {
            let known = known(*site);
            let candidate = loaded.value(*site)?;
            agreements.insert(*site, agreement(*site, own, &candidate, &replays));
            let tokens = loaded.shown(*site)?.map_or(loaded.tokens(), |shown| shown.len());
            let is_after = |experts: &&(Site, Array2<usize>)| *site > experts.0 && tokens == experts.1.nrows();
            let shown = Shown {
                site: *site,
                own,
                candidate: &candidate,
                replays: replays.values,
                storage: loaded.shown_in(*site, &self.contract, &candidate),
                is_known: known.is_alone(),
                read: known.read.filter(|read| !read.is_empty()).and_then(|read| {
                    let of_run = |run: &BTreeMap<Site, usize>| read.iter().map(|site| run.get(site)).sum();
                    others.iter().map(of_run).collect()
                }),
                way,
                tokens,
                experts: experts.as_ref().filter(is_after).map(|(_, chosen)| chosen),
            };
            if loaded.is_whole() {
                self.structures.add(self.model.config(), &shown);
            }
        }
        self.stream = left.map_or(KnownStream::SHOWN, |left| left.stream());
        if matches!(phase, Phase::Features(_)) {
            self.features = self.features.and(self.stream);
        }
        Ok(Stands { agreements, exchanged })
    }

    /// What each site that it went through says of structure in the disagreements.
    pub(crate) fn tests(self) -> BTreeMap<Site, SiteTests> {
        self.structures.tests()
    }
}

/// How a candidate stands to its twin.
pub(crate) struct Stands {
    /// Values at each site; choices, where nothing is predicted.
    pub(crate) agreements: HashMap<Site, Agreement>,
    /// Choices that the twin is nowhere near to making.
    pub(crate) exchanged: HashMap<Site, Exchanged>,
}

/// A choice of the twin's, and those of its runs in other orders.
struct Choosing {
    own: SeenChoice,
    others: Vec<SeenChoice>,
    /// Whether all roundings on the way to its scores are performed.
    is_known: bool,
}

/// What runs in other orders have at a site.
#[derive(Clone, Default)]
struct Replays {
    count: usize,
    /// How many values of all of them are not the twin's.
    unequal: usize,
    /// The share of bits that agree with the twin's, of the first of them.
    bits: f64,
    /// Their values, which an f32 holds, where these are looked at.
    values: Vec<Array2<f32>>,
}

impl Replays {
    /// Adds what a run has where the twin has `own`.
    fn add(&mut self, own: &Array2<f64>, other: &Array2<f64>, keeps: bool) {
        if self.count == 0 {
            self.bits = agreeing(own, other);
        }
        self.count += 1;
        self.unequal += unequal(own, other);
        self.values.extend(keeps.then(|| other.mapv(f32::of)));
    }
}

/// How many values are others.
fn unequal(own: &Array2<f64>, other: &Array2<f64>) -> usize {
    own.iter().zip(other).filter(|(a, b)| a != b).count()
}

/// How a candidate's values stand to its twin's, and to those of the twin's runs in other orders.
fn agreement(site: Site, own: &Array2<f64>, candidate: &Array2<f64>, others: &Replays) -> Agreement {
    let unshown = own.iter().zip(candidate).filter(|(a, b)| are_unshown(site, **a, **b)).count();
    let equal = own.iter().zip(candidate).filter(|(a, b)| a == b).count() - unshown;
    let unequal_expected = others.unequal as f64 / others.count.max(1) as f64;
    let (bits, bits_expected) = (agreeing(own, candidate), others.bits);
    Agreement { count: own.len() - unshown, equal, bits, unequal_expected, bits_expected }
}

/// The share of bits that agree, on average, relative to what is usual of the first.
fn agreeing(own: &Array2<f64>, other: &Array2<f64>) -> f64 {
    let seen = || own.iter().zip(other).filter(|(a, b)| !are_masked(**a, **b));
    let count = seen().count().max(1) as f64;
    let size = (seen().map(|(x, _)| x * x).sum::<f64>() / count).sqrt();
    let bits = |(a, b): (&f64, &f64)| if a == b { 1.0 } else { agreeing_bits((a - b).abs() / size) };
    seen().map(bits).sum::<f64>() / count
}

/// The share of 24 bits that agree where two values differ by so much, relative to what is usual at the site.
fn agreeing_bits(apart: f64) -> f64 {
    if apart.is_finite() { (-apart.log2() / 24.0).clamp(0.0, 1.0) } else { 0.0 }
}

/// A site that the candidate does not show, and what a run stores there.
type Read = (Site, Array2<f64>);

/// A run's value at a site that the candidate shows.
struct Stored {
    site: Site,
    /// As it is stored.
    value: Array2<f64>,
    /// Operators that are judged with it.
    way: Vec<Site>,
}

/// What a run went through.
struct Went {
    values: Vec<Stored>,
    /// What it would choose itself where the candidate shows its choice.
    choices: Vec<SeenChoice>,
    /// The experts of each token, with the site that chose them.
    experts: Option<(Site, Array2<usize>)>,
    /// Keys and values that the candidate does not show.
    read: Vec<Read>,
}

/// What a run under a contract computes.
fn went(
    model: &Decoder<'_>,
    state: &mut State,
    contract: RoundingContract,
    (phase, pass, loaded): (Phase, Pass<'_>, &Loaded<'_>),
) -> Result<Went, Failure> {
    let mut probe = Substitution::new(Lens::Local, loaded, &contract, None);
    (probe.records, probe.read) = (true, Some(Vec::new()));
    state.advance(model, phase, pass, &mut Run::new(contract, &mut probe).sharing(loaded.products()))?;
    if let Some(failure) = probe.failure {
        return Err(failure);
    }
    let shown: Vec<_> = probe.choices.iter().map(|choice| (choice.site, choice.candidate.clone())).collect();
    let unshown = probe.unshown.into_iter().map(|Unshown { site, mut chosen, .. }| {
        loaded.choose_as_recovered(site, &mut chosen);
        (site, chosen)
    });
    let chosen = shown.into_iter().chain(unshown);
    let experts = chosen.into_iter().find(|(site, _)| matches!(site, Site::Layer(_, LayerSite::GateExperts)));
    let stored = probe.seen.into_iter().map(|Seen { site, computed, segment, .. }| {
        let shown = loaded.shown_in(site, &contract, &*loaded.value(site)?);
        let storage = loaded.stored_in(site, &contract);
        let value = computed.value.mapv_into(|x| shown.nearest(storage.nearest(x)));
        Ok(Stored { site, value, way: segment })
    });
    let read = probe.read.unwrap_or_default();
    Ok(Went { values: stored.collect::<Result<_, Failure>>()?, choices: probe.choices, experts, read })
}
