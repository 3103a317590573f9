//! One lens on its way through a model: the reference's own state, and that of the runs that measure its noise floor.

use ndarray::Array2;
use reference::abreast::Seat;
use reference::bound::ErrorBound;
use reference::models::decoder::Decoder;
use reference::run::Run;
use reference::{LayerSite, RoundingContract, Site, Tracked};

use super::doubt::{Chosen, Doubt, Otherwise, otherwise};
use super::floor::{FEW, MEMBERS};
use super::judging::Judge;
use super::lens::Lens;
use super::loaded::{Forced, Loaded};
use super::members::{at_once, side_by_side};
use super::recover::{self, Ran, Recovery};
use super::state::{Flow, Pass, Phase, State};
use super::substitution::{Seen, SeenChoice, Substitution, Unshown};
use super::unknown::Unknown;
use crate::failure::Failure;

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
    /// What open choices leave in doubt.
    doubt: Doubt,
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
            doubt: Doubt::default(),
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
        self.doubt.begin();
    }

    /// Runs one phase of a forward pass.
    pub(crate) fn advance(&mut self, phase: Phase, pass: Pass<'_>, loaded: &Loaded<'_>) -> Result<Shown, Failure> {
        if phase == Phase::Start {
            // What is read anew was a draft that was rejected.
            let kept = pass.kept();
            std::iter::once(&mut self.main).chain(&mut self.members).for_each(|state| state.truncate(kept));
            self.unknown = false;
            self.doubt.begin();
        }
        let (before, stream) = (self.main.flow(), self.main.stream.clone());
        let mut probe = Substitution::new(self.lens, loaded, &self.candidate, None);
        probe.unknown = Unknown::new(loaded.absent, self.unknown);
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
        let open = recover::open_tokens(&probe.unshown, loaded.tokens());
        // Nothing else is kept of it.
        let chosen = match self.lens {
            Lens::Local => probe.unshown.iter().map(|unshown| (unshown.site, unshown.chosen.clone())).collect(),
            Lens::Layer | Lens::Global => Chosen::new(),
        };
        let unshown = std::mem::take(&mut probe.unshown);
        let behind = self.seen_behind(phase, pass, loaded, &unshown)?;
        let telling: Vec<&Seen> = probe.seen.iter().chain(&behind).collect();
        if let Phase::Layer(layer) = phase
            && let Some(recovery) = Recovery::of(unshown, &telling, loaded.tokens())
        {
            let open = recovery.open();
            if self.thorough || !recovery.is_in_vain(loaded, &telling)? {
                self.main.back_to(layer, stream, pass.kept());
                let run = |contract, choices: &Forced| self.forced(layer, pass, loaded, (contract, choices));
                let (choices, are_settled) = recovery.settle(loaded, (self.candidate, !self.thorough), run)?;
                loaded.recover(choices);
                if !are_settled || self.doubt.is_any() {
                    self.doubt.give_up(open);
                }
                return self.advance(phase, pass, loaded);
            }
            self.doubt.give_up(open);
        }
        self.unknown = probe.unknown.is_stream();
        loaded.recover(settled);
        let judge = |seen: Seen| {
            let doubt = self.doubt.at(seen.site, &seen.computed.value, loaded).filter(|_| self.lens == Lens::Local);
            Judge::new(seen, doubt, self.thorough)
        };
        let mut seen: Vec<Judge> = probe.seen.into_iter().map(judge).collect();
        let mut floored = Vec::new();
        for judge in &seen {
            if judge.needs_floor() && (self.thorough || !judge.is_beyond(loaded)?) {
                floored.push(judge.site());
            }
        }
        let needed =
            matches!(phase, Phase::Patches(_) | Phase::Start) || !floored.is_empty() || !self.is_exact(phase, pass);
        let mut others = Vec::new();
        if needed && !self.is_silent() {
            others = self.advance_members(before, phase, pass, loaded, (&mut seen, floored, chosen))?;
        }
        self.abreast = others.len() == self.members.len();
        self.doubt.go_on(phase, loaded, open, &others);
        Ok(Shown { seen, choices: probe.choices, missing: probe.missing, others: probe.others })
    }

    /// What a layer computes under a contract with choices made for it, and the head where that alone tells of them.
    fn forced(
        &self,
        layer: usize,
        pass: Pass<'_>,
        loaded: &Loaded<'_>,
        (contract, choices): (RoundingContract, &Forced),
    ) -> Result<Ran, Failure> {
        let loaded = loaded.with(choices.clone());
        let mut probe = Substitution::new(self.lens, &loaded, &contract, None);
        probe.records = true;
        let mut state = self.main.only(layer, pass.kept());
        state.draw_saved(&contract);
        let mut run = Run::new(contract, &mut probe).sharing(loaded.products());
        state.advance(self.model, Phase::Layer(layer), pass, &mut run)?;
        if self.is_told_by_head(layer, &loaded) {
            state.advance(self.model, Phase::Head, pass, &mut run)?;
        }
        probe.failure.map_or(Ok(Ran { seen: probe.seen, unshown: probe.unshown }), Err)
    }

    /// What is seen at the head, where that alone tells what a layer chose that is not shown.
    fn seen_behind(
        &self,
        phase: Phase,
        pass: Pass<'_>,
        loaded: &Loaded<'_>,
        unshown: &[Unshown],
    ) -> Result<Vec<Seen>, Failure> {
        let Phase::Layer(layer) = phase else { return Ok(Vec::new()) };
        if !self.is_told_by_head(layer, loaded) || !recover::are_open(unshown) {
            return Ok(Vec::new());
        }
        let mut probe = Substitution::new(self.lens, loaded, &self.candidate, None);
        let mut run = Run::bounding(self.candidate, &mut probe).sharing(loaded.products());
        self.main.clone().advance(self.model, Phase::Head, pass, &mut run)?;
        probe.failure.map_or(Ok(probe.seen), Err)
    }

    /// Whether a layer is the last, of which the candidate shows no output, as where that has gone through the norm, and a run
    /// starts from what the candidate shows to go into it.
    fn is_told_by_head(&self, layer: usize, loaded: &Loaded<'_>) -> bool {
        let output = |layer| loaded.has(Site::Layer(layer, LayerSite::Output));
        layer + 1 == self.model.config().num_hidden_layers && !output(layer) && layer.checked_sub(1).is_none_or(output)
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
    /// run's. Where only verdicts are asked for, few show what is far beyond any noise, and no more are run. For which tokens
    /// each that ran chose otherwise than `chosen`, the main run's choices that the candidate does not show.
    fn advance_members(
        &mut self,
        before: Flow,
        phase: Phase,
        pass: Pass<'_>,
        loaded: &Loaded<'_>,
        (seen, mut floored, chosen): (&mut [Judge], Vec<Site>, Chosen),
    ) -> Result<Vec<Otherwise>, Failure> {
        let few_may_do = !self.thorough && !floored.is_empty() && self.is_exact(phase, pass);
        let (lens, model, candidate, is_abreast) = (self.lens, self.model, self.candidate, self.abreast);
        let most = at_once(model.config(), phase, loaded.extent);
        let mut done = 0;
        let mut others = Vec::new();
        while done < self.members.len() {
            if few_may_do && done == FEW {
                for judge in seen.iter_mut().filter(|judge| floored.contains(&judge.site())) {
                    judge.give_up_if_far(loaded)?;
                }
                floored.retain(|site| !seen.iter().any(|judge| judge.site() == *site && judge.is_far()));
                if floored.is_empty() {
                    return Ok(others);
                }
            }
            let to = if few_may_do && done < FEW { FEW } else { self.members.len() };
            let next = done..to.min(done + most);
            let main = &self.main;
            let run = |member: &mut State, seed: u64, seat: Option<&Seat<'_, f64>>| {
                if !is_abreast {
                    member.follow(&before);
                }
                if let Phase::Layer(layer) = phase
                    && member.cache.len(layer) != pass.kept()
                {
                    member.cache.adopt(layer, &main.cache, pass.kept());
                }
                let contract = candidate.stochastic(seed);
                let mut probe = Substitution::new(lens, loaded, &contract, Some(floored.clone()));
                probe.records = !chosen.is_empty();
                let run = Run::new(contract, &mut probe).sharing(loaded.products());
                let mut run = Run { seat, ..run };
                member.advance(model, phase, pass, &mut run)?;
                let other = otherwise(&probe.unshown, &chosen, loaded.tokens());
                probe.failure.map_or(Ok((probe.seen, other)), Err)
            };
            let drawn = side_by_side(&mut self.members[next.clone()], next.start as u64 + 1, run)?;
            let (drawn, otherwise): (Vec<_>, Vec<_>) = drawn.into_iter().unzip();
            others.extend(otherwise);
            for drawn in drawn.into_iter().flatten() {
                let judge = seen.iter_mut().find(|judge| judge.site() == drawn.site);
                judge.expect("the main run passed here").add_member(&drawn.computed.value);
            }
            done = next.end;
        }
        for judge in seen.iter_mut().filter(|judge| self.doubt.is_given_up_before(judge.site())) {
            if let Some(doubt) = &mut judge.doubt {
                doubt.learn(&others);
            }
        }
        Ok(others)
    }
}
