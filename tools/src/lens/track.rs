//! One lens on its way through a model: the reference's own state, and that of the runs that measure its noise floor.

use ndarray::Array2;
use reference::bound::ErrorBound;
use reference::models::decoder::{Decoder, Stream};
use reference::ops::kv_cache::KvCache;
use reference::ops::rope::RopeTable;
use reference::run::Run;
use reference::{Error, RoundingContract, Site, Tracked};

use super::Lens;
use super::floor::MEMBERS;
use super::judge::Judge;
use super::substitution::{Loaded, SeenChoice, Substitution};
use crate::failure::Failure;

/// A part of a forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Embedding and rotation table.
    Start,
    /// A layer.
    Layer(usize),
    /// Final norm and head.
    Head,
}

/// One forward pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pass<'a> {
    pub(crate) tokens: &'a [u32],
    /// The position of the first of them.
    pub(crate) first: usize,
    /// Whether another pass follows, which reads this one's cache.
    pub(crate) more: bool,
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
    members: Vec<State>,
    /// Whether noise is measured even where a value is beyond any noise.
    thorough: bool,
    /// Whether the members' streams are where the main run's is.
    abreast: bool,
}

/// Where a run stands.
#[derive(Clone)]
struct State {
    stream: Option<Stream<f64>>,
    table: Option<RopeTable<f64>>,
    cache: KvCache<f64>,
}

impl<'m> Track<'m> {
    pub(crate) fn new(lens: Lens, model: &'m Decoder<'m>, candidate: RoundingContract, thorough: bool) -> Self {
        let cache = KvCache::new(model.config().num_hidden_layers);
        let main = State { stream: None, table: None, cache };
        Track { lens, model, candidate, members: vec![main.clone(); MEMBERS], main, thorough, abreast: false }
    }

    /// Goes on from a candidate's residual stream.
    pub(crate) fn jump(&mut self, stream: &Array2<f64>) {
        self.main.stream = Some(Tracked::exact(stream.clone()).into());
        self.abreast = false;
    }

    /// Runs one phase of a forward pass.
    pub(crate) fn advance(&mut self, phase: Phase, pass: Pass<'_>, loaded: &Loaded<'_>) -> Result<Shown, Failure> {
        let before = self.main.stream.clone();
        let mut probe = Substitution::new(self.lens, loaded, None);
        let mut run = if self.lens.bounds() {
            Run::bounding(self.candidate, &mut probe)
        } else {
            Run::new(RoundingContract::IDEAL, &mut probe)
        };
        self.main.advance(self.model, phase, pass, &mut run)?;
        if let Some(failure) = probe.failure {
            return Err(failure);
        }
        let mut seen: Vec<Judge> = probe.seen.into_iter().map(Judge::new).collect();
        let mut floored = Vec::new();
        for judge in &seen {
            if judge.needs_floor() && (self.thorough || !judge.is_beyond(loaded)?) {
                floored.push(judge.site());
            }
        }
        let needed = phase == Phase::Start || !floored.is_empty() || !self.is_exact(phase, pass);
        if needed {
            self.advance_members(before, phase, pass, loaded, &mut seen, &floored)?;
        }
        self.abreast = needed;
        Ok(Shown { seen, choices: probe.choices, missing: probe.missing, others: probe.others })
    }

    /// Whether all that later phases read of this one is the candidate's own, and so needs no member of its own.
    fn is_exact(&self, phase: Phase, pass: Pass<'_>) -> bool {
        let exact = |x: &Tracked<f64>| x.error.as_ref().is_some_and(ErrorBound::is_exact);
        let kept = match phase {
            Phase::Layer(layer) if pass.more => self.main.cache.layer(layer).is_none_or(|(k, v)| exact(k) && exact(v)),
            _ => true,
        };
        kept && (phase == Phase::Head || self.main.stream.as_ref().is_none_or(|stream| exact(&stream.stored)))
    }

    /// Runs the phase with stochastic rounding. Where members lag behind, what they missed was exact, and the main
    /// run's.
    fn advance_members(
        &mut self,
        before: Option<Stream<f64>>,
        phase: Phase,
        pass: Pass<'_>,
        loaded: &Loaded<'_>,
        seen: &mut [Judge],
        floored: &[Site],
    ) -> Result<(), Failure> {
        let before = before.map(|stream| Stream::from(Tracked::plain(stream.stored.value)));
        for (member, seed) in self.members.iter_mut().zip(1..) {
            if !self.abreast {
                member.stream.clone_from(&before);
            }
            if let Phase::Layer(layer) = phase
                && member.cache.len(layer) != pass.first
            {
                member.cache.adopt(layer, &self.main.cache, pass.first);
            }
            let mut probe = Substitution::new(self.lens, loaded, Some(floored.to_vec()));
            let mut run = Run::new(self.candidate.stochastic(seed), &mut probe);
            member.advance(self.model, phase, pass, &mut run)?;
            if let Some(failure) = probe.failure {
                return Err(failure);
            }
            for drawn in probe.seen {
                let judge = seen.iter_mut().find(|judge| judge.site() == drawn.site);
                judge.expect("the main run passed here").add_member(drawn.computed.value);
            }
        }
        Ok(())
    }
}

impl State {
    fn advance(
        &mut self,
        model: &Decoder<'_>,
        phase: Phase,
        pass: Pass<'_>,
        run: &mut Run<'_, f64>,
    ) -> Result<(), Error> {
        match phase {
            Phase::Start => {
                self.stream = Some(model.embed(pass.tokens, pass.first, run)?.into());
                self.table = Some(model.rope_table(pass.first, pass.tokens.len(), run));
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
