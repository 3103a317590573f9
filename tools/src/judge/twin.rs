//! The twin: the reference under a precision, from the candidate's own inputs to each operator.
//!
//! What is deterministic is performed: casts of weights, stored outputs, tables. What is left unknown is the order of sums
//! and the last bit of functions, so that a right candidate equals its twin in all but a few values: how few is predicted by
//! runs of the twin whose sums are drawn in other orders, and so is what structure the disagreements have.

use std::collections::{BTreeMap, HashMap};

use ndarray::{Array2, Zip};
use reference::models::decoder::Decoder;
use reference::rounding::{AttentionRound, ExpertSum, NormInput};
use reference::run::Run;
use reference::site::{VisionLayerSite, VisionSite};
use reference::{LayerSite, Real, RoundingContract, Site, Storage};

use super::agreement::Agreement;
use super::exchanged::Exchanged;
use super::lens::Lens;
use super::loaded::Loaded;
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
    /// Whether all roundings since the last residual stream that the candidate shows are performed.
    is_known: bool,
}

impl<'m> Twin<'m> {
    /// Of a model whose weights are held as the contract says.
    pub(crate) fn new(model: &'m Decoder<'m>, contract: RoundingContract) -> Self {
        let is_narrow = matches!(contract.shown(), Storage::F16 | Storage::Bf16);
        let replays = if is_narrow { REPLAYS } else { REPLAYS_OF_WIDE };
        let replays = (0..replays).map(|_| State::new(model)).collect();
        Twin { model, contract, main: State::new(model), replays, structures: Structures::default(), is_known: true }
    }

    /// One that predicts how many values are others by so few runs in other orders, and nothing by none, and says how choices stand, too:
    /// it tells precisions apart.
    pub(crate) fn beside(model: &'m Decoder<'m>, contract: RoundingContract, orders: usize) -> Self {
        Twin { replays: vec![State::new(model); orders], ..Twin::new(model, contract) }
    }

    /// Goes on from a candidate's residual stream.
    pub(crate) fn jump(&mut self, stream: &Array2<f64>) {
        self.is_known = true;
        self.main.jump(stream, &self.contract, true);
        for (replay, seed) in self.replays.iter_mut().zip(1..) {
            replay.jump(stream, &self.contract.reordered(seed), true);
        }
    }

    /// Runs one phase of a forward pass: every site that the candidate shows, and how its values stand.
    pub(crate) fn advance(&mut self, phase: Phase, pass: Pass<'_>, loaded: &Loaded<'_>) -> Result<Stands, Failure> {
        if phase == Phase::Start {
            self.is_known = true;
            std::iter::once(&mut self.main).chain(&mut self.replays).for_each(|state| state.truncate(pass.kept()));
        }
        let mut own = went(self.model, &mut self.main, self.contract, (phase, pass, loaded))?;
        let is_told = self.is_known && loaded.is_whole();
        let choosing = |(own, is_known)| Choosing { own, others: Vec::new(), is_known: is_known && is_told };
        let mut choices: Vec<Choosing> = own.choices.drain(..).map(choosing).collect();
        for stored in &mut own.values {
            stored.is_known &= self.is_known;
            self.is_known = is_stream(stored.site) || (self.is_known && stored.leaves_known);
        }
        self.is_known &= own.is_known;
        let Went { values: own, experts, .. } = own;
        let mut replays = vec![Replays::default(); own.len()];
        for (replay, seed) in self.replays.iter_mut().zip(1..) {
            let other = went(self.model, replay, self.contract.reordered(seed), (phase, pass, loaded))?;
            choices.iter_mut().zip(other.choices).for_each(|(choice, (other, _))| choice.others.push(other));
            for ((replays, own), other) in replays.iter_mut().zip(&own).zip(other.values) {
                let candidate = loaded.value(own.site)?;
                let keeps = Structures::are_looked_at(loaded.shown_in(own.site, &self.contract, &candidate));
                replays.add(&own.value, &other.value, keeps);
            }
        }
        let mut agreements = HashMap::new();
        if self.replays.is_empty() {
            agreements.extend(choices.iter().map(|choice| (choice.own.site, choice.own.agreement())));
        }
        let known = choices.iter().filter(|choice| choice.is_known && !choice.others.is_empty());
        let exchanged = known.filter_map(|choice| Some((choice.own.site, Exchanged::of(&choice.own, &choice.others)?)));
        let exchanged = exchanged.collect();
        for (Stored { site, value: own, is_known, way, .. }, replays) in own.iter().zip(replays) {
            let candidate = loaded.value(*site)?;
            agreements.insert(*site, agreement(own, &candidate, &replays));
            let tokens = loaded.shown(*site)?.map_or(loaded.tokens(), |shown| shown.len());
            let is_after = |experts: &&(Site, Array2<usize>)| *site > experts.0 && tokens == experts.1.nrows();
            let shown = Shown {
                site: *site,
                own,
                candidate: &candidate,
                replays: replays.values,
                storage: loaded.shown_in(*site, &self.contract, &candidate),
                is_known: *is_known,
                way,
                tokens,
                experts: experts.as_ref().filter(is_after).map(|(_, chosen)| chosen),
            };
            if loaded.is_whole() {
                self.structures.add(self.model.config(), &shown);
            }
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
    /// Their values, which an f32 holds, where these are looked at.
    values: Vec<Array2<f32>>,
}

impl Replays {
    /// Adds what a run has where the twin has `own`.
    fn add(&mut self, own: &Array2<f64>, other: &Array2<f64>, keeps: bool) {
        self.count += 1;
        self.unequal += own.iter().zip(other).filter(|(a, b)| a != b).count();
        self.values.extend(keeps.then(|| other.mapv(f32::of)));
    }
}

/// How a candidate's values stand to its twin's, and to those of the twin's runs in other orders.
fn agreement(own: &Array2<f64>, candidate: &Array2<f64>, others: &Replays) -> Agreement {
    let (mut equal, mut bits) = (0, 0.0);
    let size = (own.iter().map(|x| x * x).sum::<f64>() / own.len() as f64).sqrt();
    Zip::from(own).and(candidate).for_each(|a, b| {
        equal += usize::from(a == b);
        bits += if a == b { 1.0 } else { agreeing_bits((a - b).abs() / size) };
    });
    let unequal_expected = others.unequal as f64 / others.count.max(1) as f64;
    Agreement { count: own.len(), equal, bits: bits / own.len() as f64, unequal_expected }
}

/// The share of 24 bits that agree where two values differ by so much, relative to what is usual at the site.
fn agreeing_bits(apart: f64) -> f64 {
    if apart.is_finite() { (-apart.log2() / 24.0).clamp(0.0, 1.0) } else { 0.0 }
}

/// A run's value at a site that the candidate shows.
struct Stored {
    site: Site,
    /// As it is stored.
    value: Array2<f64>,
    /// Whether all roundings on the way there are performed.
    is_known: bool,
    /// Whether those are that go into the residual stream on that way.
    leaves_known: bool,
    /// Sites on that way that the candidate does not show.
    way: Vec<Site>,
}

/// What a run went through.
struct Went {
    values: Vec<Stored>,
    /// What it would choose itself where the candidate shows its choice, and whether all roundings on the way are performed.
    choices: Vec<(SeenChoice, bool)>,
    /// The experts of each token, with the site that chose them.
    experts: Option<(Site, Array2<usize>)>,
    /// Whether all roundings after the last of the values are performed.
    is_known: bool,
}

/// What a run under a contract computes.
fn went(
    model: &Decoder<'_>,
    state: &mut State,
    contract: RoundingContract,
    (phase, pass, loaded): (Phase, Pass<'_>, &Loaded<'_>),
) -> Result<Went, Failure> {
    let mut probe = Substitution::new(Lens::Local, loaded, &contract, None);
    probe.records = true;
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
    // What values were before they were saved nobody knows.
    let is_shown = contract.saved == Storage::Real;
    let are_known = |sites: &[Site]| is_shown && sites.iter().all(|site| rounds_as_known(*site, &contract));
    let is_known = are_known(&probe.segment);
    let told = |choice: SeenChoice| {
        let is_known = are_known(&choice.way);
        (choice, is_known)
    };
    let choices = probe.choices.into_iter().map(told).collect();
    let stored = probe.seen.into_iter().map(|Seen { site, computed, segment, .. }| {
        let is_told = !segment.iter().copied().any(is_context) || tells_attention(site);
        // A key or a value that is another moves all tokens behind it, and tokens are told apart as if each were by itself.
        let is_told = is_told && (is_key(site) || !segment.iter().copied().any(is_read_by_others));
        let is_known = is_told && are_known(&[site]) && are_known(&segment);
        let into_stream = segment.iter().rposition(|site| is_stream(*site)).unwrap_or(0);
        let leaves_known = is_told && are_known(&segment[..into_stream]);
        let shown = loaded.shown_in(site, &contract, &*loaded.value(site)?);
        let storage = loaded.stored_in(site, &contract);
        let value = computed.value.mapv_into(|x| shown.nearest(storage.nearest(x)));
        Ok(Stored { site, value, is_known, leaves_known, way: segment })
    });
    Ok(Went { values: stored.collect::<Result<_, Failure>>()?, choices, experts, is_known })
}

/// Whether values are the residual stream's, between layers or within one.
fn is_stream(site: Site) -> bool {
    site.is_stream() || matches!(site, Site::Layer(_, LayerSite::Residual))
}

fn is_context(site: Site) -> bool {
    matches!(site, Site::Layer(_, LayerSite::Context) | Site::Vision(_, VisionSite::Layer(_, VisionLayerSite::Context)))
}

/// Whether values are projections that tokens read of one another.
fn is_read_by_others(site: Site) -> bool {
    use VisionLayerSite as Tower;
    match site {
        Site::Layer(_, site) => matches!(site, LayerSite::KProj | LayerSite::VProj),
        Site::Vision(_, VisionSite::Layer(_, site)) => matches!(site, Tower::KProj | Tower::VProj),
        _ => false,
    }
}

/// Whether values are keys, before anyone reads them.
fn is_key(site: Site) -> bool {
    use VisionLayerSite as Tower;
    match site {
        Site::Layer(_, site) => matches!(site, LayerSite::KNorm | LayerSite::KRope),
        Site::Vision(_, VisionSite::Layer(_, site)) => site == Tower::KRope,
        _ => false,
    }
}

/// Whether values tell how the attention before them rounds: its output, or the residual stream. Behind the next norm little
/// is left of what one attention has otherwise than another, and the precision that was found may not be its own.
fn tells_attention(site: Site) -> bool {
    let is_output = |site: &LayerSite| matches!(site, LayerSite::Context | LayerSite::OProj | LayerSite::Attention);
    match site {
        Site::Layer(_, own) => is_stream(site) || is_output(&own),
        _ => true,
    }
}

/// Whether what an operator rounds inside is performed: attention that does not store its probabilities cuts keys into tiles of
/// unknown sizes, experts may be added in any order, and so may the parts of more than two ranks, and a sum that norms read before
/// it is rounded is not what is shown of it.
fn rounds_as_known(site: Site, contract: &RoundingContract) -> bool {
    match site {
        site if is_context(site) => {
            matches!(contract.attention, AttentionRound::Eager | AttentionRound::Operands)
        }
        Site::Layer(_, LayerSite::OProj | LayerSite::DenseDown | LayerSite::SharedDown | LayerSite::Mlp) => {
            contract.ranks <= 2
        }
        Site::Layer(_, LayerSite::Experts) => contract.ranks <= 2 && contract.experts != ExpertSum::EachUnordered,
        Site::FinalNorm | Site::Layer(_, LayerSite::InputNorm | LayerSite::PostAttentionNorm | LayerSite::Output) => {
            contract.norm_input == NormInput::Stored
        }
        _ => true,
    }
}
