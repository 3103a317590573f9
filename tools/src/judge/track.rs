//! One lens on its way through a model: the reference's own state, and that of the runs that measure its noise floor.

use std::fmt;

use ndarray::Array2;
use reference::bound::ErrorBound;
use reference::models::decoder::{Decoder, Stream};
use reference::models::vision::Patches;
use reference::ops::kv_cache::KvCache;
use reference::ops::rope::RopeTable;
use reference::run::Run;
use reference::{Error, Real, Rounding, RoundingContract, Site, Storage, Tracked};

use super::candidate::Start;
use super::floor::{FEW, MEMBERS};
use super::judging::Judge;
use super::lens::Lens;
use super::loaded::{Forced, Loaded};
use super::recover::{self, Ran, Recovery};
use super::stored::saved_as;
use super::substitution::{SeenChoice, Substitution, before_saved};
use crate::failure::Failure;

/// A part of a forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Patch embedding of a pass through the vision tower, its norm and rotation table.
    Patches(usize),
    /// A layer of the tower on that pass.
    TowerLayer(usize, usize),
    /// The projector on that pass.
    Features(usize),
    /// Embedding, with features where there are some, and rotation table.
    Start,
    /// A layer.
    Layer(usize),
    /// Final norm and head.
    Head,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Phase::Patches(_) => f.write_str("patches"),
            Phase::TowerLayer(_, layer) => write!(f, "vision layer {layer}"),
            Phase::Features(_) => f.write_str("features"),
            Phase::Start => f.write_str("embedding"),
            Phase::Layer(layer) => write!(f, "layer {layer}"),
            Phase::Head => f.write_str("head"),
        }
    }
}

/// One forward pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pass<'a> {
    pub(crate) tokens: &'a [u32],
    /// Those of them that belong to the prompt, where images may have places.
    pub(crate) prompt: &'a [u32],
    /// Where they begin.
    pub(crate) start: Start,
    /// Whether another pass follows, which reads this one's cache.
    pub(crate) more: bool,
}

impl Pass<'_> {
    /// Positions before it that passes had.
    pub(super) fn kept(&self) -> usize {
        self.start.position - self.start.absent
    }
}

/// What a phase showed.
pub(crate) struct Shown {
    pub(crate) seen: Vec<Judge>,
    pub(crate) choices: Vec<SeenChoice>,
    pub(crate) missing: Vec<Site>,
    pub(crate) others: Vec<Site>,
}

/// A lens under way.
pub(crate) struct Track<'m> {
    pub(crate) lens: Lens,
    model: &'m Decoder<'m>,
    candidate: RoundingContract,
    main: State,
    /// None, if it is silent.
    members: Vec<State>,
    /// Whether noise is measured even where a value is beyond any noise, and more is told than verdicts.
    thorough: bool,
    /// Whether the members' streams are where the main run's is.
    abreast: bool,
    /// Whether the stream depends on what nobody knows.
    unknown: bool,
}

/// Where a run stands.
#[derive(Clone)]
pub(super) struct State<T = f64> {
    patches: Option<Patches<T>>,
    features: Vec<Tracked<T>>,
    stream: Option<Stream<T>>,
    table: Option<RopeTable<T>>,
    cache: KvCache<T>,
}

impl<'m> Track<'m> {
    pub(crate) fn new(lens: Lens, model: &'m Decoder<'m>, candidate: RoundingContract, thorough: bool) -> Self {
        let main = State::new(model);
        Track {
            lens,
            model,
            candidate,
            members: vec![main.clone(); MEMBERS],
            main,
            thorough,
            abreast: false,
            unknown: false,
        }
    }

    /// The same, of which nothing is said: it tells others what it sees on its way, and needs no noise.
    pub(crate) fn silent(self) -> Self {
        Track { members: Vec::new(), ..self }
    }

    /// Whether nothing is said of it.
    pub(crate) fn is_silent(&self) -> bool {
        self.members.is_empty()
    }

    /// Goes on from a candidate's residual stream, each run with what it takes that for.
    pub(crate) fn jump(&mut self, stream: &Array2<f64>) {
        self.main.jump(stream, &self.candidate, true);
        for (member, seed) in self.members.iter_mut().zip(1..) {
            member.jump(stream, &self.candidate.stochastic(seed), false);
        }
        (self.abreast, self.unknown) = (true, false);
    }

    /// Runs one phase of a forward pass.
    pub(crate) fn advance(&mut self, phase: Phase, pass: Pass<'_>, loaded: &Loaded<'_>) -> Result<Shown, Failure> {
        if phase == Phase::Start {
            // What is read anew was a draft that was rejected.
            let kept = pass.kept();
            std::iter::once(&mut self.main).chain(&mut self.members).for_each(|state| state.truncate(kept));
            self.unknown = false;
        }
        let (before, stream) = (self.main.flow(), self.main.stream.clone());
        let mut probe = Substitution::new(self.lens, loaded, &self.candidate, None);
        probe.unknown = probe.unknown.going_on(self.unknown);
        let mut run = if self.lens.bounds() {
            Run::bounding(self.candidate, &mut probe)
        } else {
            Run::new(RoundingContract::IDEAL, &mut probe)
        };
        run = run.sharing(loaded.products());
        self.main.advance(self.model, phase, pass, &mut run)?;
        if let Some(failure) = probe.failure {
            return Err(failure);
        }
        let settled = recover::settled(&probe.unshown);
        if let Phase::Layer(layer) = phase
            && let Some(recovery) = Recovery::of(std::mem::take(&mut probe.unshown), &probe.seen, loaded.tokens())
            && (self.thorough || !recovery.is_in_vain(loaded, &probe.seen)?)
        {
            self.main.back_to(layer, stream, pass.kept());
            let run = |contract, choices: &Forced| self.forced((layer, phase), pass, loaded, (contract, choices));
            let choices = recovery.settle(loaded, (self.candidate, !self.thorough), run)?;
            loaded.recover(choices);
            return self.advance(phase, pass, loaded);
        }
        self.unknown = probe.unknown.is_stream();
        loaded.recover(settled);
        let mut seen: Vec<Judge> = probe.seen.into_iter().map(|seen| Judge::new(seen, self.thorough)).collect();
        let mut floored = Vec::new();
        for judge in &seen {
            if judge.needs_floor() && (self.thorough || !judge.is_beyond(loaded)?) {
                floored.push(judge.site());
            }
        }
        let needed =
            matches!(phase, Phase::Patches(_) | Phase::Start) || !floored.is_empty() || !self.is_exact(phase, pass);
        if needed && !self.is_silent() {
            self.abreast = self.advance_members(before, phase, pass, loaded, (&mut seen, floored))?;
        } else {
            self.abreast = false;
        }
        Ok(Shown { seen, choices: probe.choices, missing: probe.missing, others: probe.others })
    }

    /// What a layer computes under a contract with choices made for it.
    fn forced(
        &self,
        (layer, phase): (usize, Phase),
        pass: Pass<'_>,
        loaded: &Loaded<'_>,
        (contract, choices): (RoundingContract, &Forced),
    ) -> Result<Ran, Failure> {
        let loaded = loaded.with(choices.clone());
        let mut probe = Substitution::new(self.lens, &loaded, &contract, None);
        probe.records = true;
        let mut state = self.main.only(layer, pass.kept());
        state.draw_saved(&contract);
        state.advance(self.model, phase, pass, &mut Run::new(contract, &mut probe).sharing(loaded.products()))?;
        probe.failure.map_or(Ok(Ran { seen: probe.seen, unshown: probe.unshown }), Err)
    }

    /// Whether all that later phases read of this one is the candidate's own, and so needs no member of its own.
    fn is_exact(&self, phase: Phase, pass: Pass<'_>) -> bool {
        let exact = |x: &Tracked<f64>| x.error.as_ref().is_some_and(ErrorBound::is_exact);
        let State { patches, features, stream, cache, .. } = &self.main;
        let stream_is = || stream.as_ref().is_none_or(|stream| exact(&stream.stored));
        let kept_is = |layer| cache.layer(layer).is_none_or(|(k, v)| exact(k) && exact(v));
        match phase {
            Phase::Patches(_) | Phase::TowerLayer(..) => patches.as_ref().is_none_or(|patches| exact(&patches.stream)),
            Phase::Features(_) => features.iter().all(exact),
            Phase::Start => stream_is(),
            Phase::Layer(layer) => stream_is() && (!pass.more || kept_is(layer)),
            Phase::Head => true,
        }
    }

    /// Runs the phase with stochastic rounding. Where members lag behind, what they missed was exact, and the main
    /// run's. Whether all of them ran: where only verdicts are asked for, few show what is far beyond any noise.
    fn advance_members(
        &mut self,
        before: Flow,
        phase: Phase,
        pass: Pass<'_>,
        loaded: &Loaded<'_>,
        (seen, mut floored): (&mut [Judge], Vec<Site>),
    ) -> Result<bool, Failure> {
        let few_may_do = !self.thorough && !floored.is_empty() && self.is_exact(phase, pass);
        for (member, seed) in self.members.iter_mut().zip(1..) {
            if few_may_do && seed == FEW as u64 + 1 {
                for judge in seen.iter_mut().filter(|judge| floored.contains(&judge.site())) {
                    judge.give_up_if_far(loaded)?;
                }
                floored.retain(|site| !seen.iter().any(|judge| judge.site() == *site && judge.is_far()));
                if floored.is_empty() {
                    return Ok(false);
                }
            }
            if !self.abreast {
                member.follow(&before);
            }
            if let Phase::Layer(layer) = phase
                && member.cache.len(layer) != pass.kept()
            {
                member.cache.adopt(layer, &self.main.cache, pass.kept());
            }
            let contract = self.candidate.stochastic(seed);
            let mut probe = Substitution::new(self.lens, loaded, &contract, Some(floored.clone()));
            let mut run = Run::new(contract, &mut probe).sharing(loaded.products());
            member.advance(self.model, phase, pass, &mut run)?;
            if let Some(failure) = probe.failure {
                return Err(failure);
            }
            for drawn in probe.seen {
                let judge = seen.iter_mut().find(|judge| judge.site() == drawn.site);
                judge.expect("the main run passed here").add_member(&drawn.computed.value);
            }
        }
        Ok(true)
    }
}

/// What a phase of a run starts from.
struct Flow {
    patches: Option<Tracked<f64>>,
    features: Vec<Tracked<f64>>,
    stream: Option<Tracked<f64>>,
}

impl State {
    /// Goes back to before a layer whose pass began at position `first`.
    fn back_to(&mut self, layer: usize, stream: Option<Stream<f64>>, first: usize) {
        self.stream = stream;
        let mut cache = KvCache::new(self.cache.layers());
        cache.adopt(layer, &self.cache, first);
        self.cache.adopt(layer, &cache, first);
    }

    /// The same with the cache of one layer alone, up to position `first`.
    fn only(&self, layer: usize, first: usize) -> Self {
        let mut cache = KvCache::new(self.cache.layers());
        cache.adopt(layer, &self.cache, first);
        State { patches: None, features: Vec::new(), stream: self.stream.clone(), table: self.table.clone(), cache }
    }

    /// Goes on from one of the streams that a run, if it draws its errors, may have saved as this one.
    fn draw_saved(&mut self, contract: &RoundingContract) {
        let stored = self.stream.as_ref().map(|stream| stream.stored.value.clone());
        if let Some(stored) =
            stored.filter(|stored| contract.mode.draws() && saved_as(contract.saved, stored).is_some())
        {
            self.jump(&stored, contract, false);
        }
    }

    fn flow(&self) -> Flow {
        let plain = |x: &Tracked<f64>| Tracked::plain(x.value.clone());
        Flow {
            patches: self.patches.as_ref().map(|patches| plain(&patches.stream)),
            features: self.features.iter().map(plain).collect(),
            stream: self.stream.as_ref().map(|stream| plain(&stream.stored)),
        }
    }

    /// Goes on from where another run is; rotation tables are its own.
    fn follow(&mut self, flow: &Flow) {
        if let (Some(own), Some(stream)) = (&mut self.patches, &flow.patches) {
            own.stream.clone_from(stream);
        }
        self.features.clone_from(&flow.features);
        self.stream = flow.stream.clone().map(Stream::from);
    }
}

impl<T: Real> State<T> {
    pub(super) fn new(model: &Decoder<'_>) -> Self {
        let cache = KvCache::new(model.config().num_hidden_layers);
        State { patches: None, features: Vec::new(), stream: None, table: None, cache }
    }

    /// Forgets what was read after so many positions.
    pub(super) fn truncate(&mut self, kept: usize) {
        self.cache.truncate(kept);
    }

    /// Goes on from the residual stream of a candidate that rounds as a contract says, with its errors or without.
    pub(super) fn jump(&mut self, stream: &Array2<f64>, contract: &RoundingContract, bounds: bool) {
        let saved = saved_as(contract.saved, stream).unwrap_or(Storage::Real);
        let Tracked { value, error } =
            before_saved(stream, (contract.activations, Rounding { storage: saved, mode: contract.mode }), bounds);
        self.stream = Some(Tracked { value: value.mapv(T::of), error }.into());
    }

    pub(super) fn advance(
        &mut self,
        model: &Decoder<'_>,
        phase: Phase,
        pass: Pass<'_>,
        run: &mut Run<'_, T>,
    ) -> Result<(), Error> {
        let pixels = |which| {
            let media = model.media().and_then(|media| media.at(pass.start.position));
            let media = media.expect("a pass through the tower has something to see");
            media.passes().nth(which).expect("there are as many passes").1
        };
        let tower = |which| model.tower(pass.start.position, which).expect("what sees has a tower");
        match phase {
            Phase::Patches(which) => self.patches = Some(tower(which).embed(pixels(which), run)?),
            Phase::TowerLayer(which, layer) => {
                let patches = self.patches.as_mut().expect("a pass has a start");
                patches.stream = tower(which).layer(layer, patches, &pixels(which).grids, run)?;
            }
            Phase::Features(which) => {
                let patches = self.patches.take().expect("a pass has a start");
                self.features.push(tower(which).project(&patches.stream, &pixels(which).grids, run)?);
            }
            Phase::Start => {
                let embedded = model.embed(pass.tokens, pass.start.position, run)?;
                let features = std::mem::take(&mut self.features);
                // A run that begins in between has seen nothing, and goes on from a stream that has.
                let first = pass.start.position;
                let unseen = features.is_empty() && model.media().is_some_and(|media| media.at(first).is_some());
                let stream =
                    if unseen { embedded } else { model.scatter((first, pass.prompt), embedded, &features, run)? };
                self.stream = Some(match model.hidden(first, pass.tokens.len()) {
                    Some(hidden) => model.entered(first, stream, &hidden, run)?,
                    None => stream.into(),
                });
                let model = model.of_call(pass.start.position);
                self.table = Some(model.rope_table(pass.start.rotated, pass.tokens.len(), run));
            }
            Phase::Layer(layer) => {
                let stream = self.stream.take().expect("a pass has a start");
                let table = self.table.as_ref().expect("a pass has a start");
                self.stream = Some(model.layer(layer, &stream, table, &mut self.cache, run)?);
            }
            Phase::Head => {
                model.head(self.stream.as_ref().expect("a pass has a start"), run)?;
            }
        }
        Ok(())
    }
}
