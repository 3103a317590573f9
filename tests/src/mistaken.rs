//! Implementations that are right but for known mistakes: the reference, computing in f32.

use fixtures::checkpoint::held::HeldWeights;
use fixtures::checkpoint::memory::MemoryWeights;
use fixtures::golden::{Case, Golden};
use ndarray::Array2;
use optimized::models::capture::Capture;
use reference::config::Config;
use reference::media::Media;
use reference::models::decoder::Decoder;
use reference::ops::kv_cache::KvCache;
use reference::probe::Probe;
use reference::run::Run;
use reference::{RoundingContract, Semantics, Site, Tracked};
use tools::diagnose::catalogue::assumption::Assumption;
use tools::diagnose::catalogue::list;
use tools::diagnose::catalogue::mistake::{Assumed, Clue};
use tools::diagnose::diagnosis::{Diagnosis, diagnose};
use tools::judge::candidate::{Candidate, Live};
use tools::judge::compared::Compared;
use tools::judge::comparison::Comparison;
use tools::session::model::Model;
use tools::session::pixels::Shown;
use tools::session::prompt::Prompt;

use crate::witness;

/// Keeps what it sees.
#[derive(Default)]
struct Recorder(Live);

impl Probe<f32> for Recorder {
    fn visit(&mut self, site: Site, value: &mut Tracked<f32>) {
        self.0.value(site, value.value.clone());
    }

    fn choose(&mut self, site: Site, _: &Tracked<f32>, chosen: &mut Array2<usize>) {
        Capture::choices(&mut self.0, site, chosen.clone());
    }
}

/// What an implementation computes in f32 that rounds so.
pub fn computed(model: &Decoder<'_>, tokens: &[u32], contract: RoundingContract) -> Live {
    recorded(contract, |run| {
        let mut cache = KvCache::new(model.config().num_hidden_layers);
        model.forward(tokens, &mut cache, run).expect("it runs");
    })
}

/// What a pass in f32 shows.
pub fn recorded(contract: RoundingContract, pass: impl FnOnce(&mut Run<'_, f32>)) -> Live {
    let mut recorder = Recorder::default();
    pass(&mut Run::new(contract, &mut recorder));
    recorder.0
}

/// Whether a known mistake goes wrong between calls, so that a prompt in one call has nothing of it.
pub fn needs_calls(name: &str) -> bool {
    list::all().any(|mistake| mistake.name == name && mistake.needs_calls())
}

/// What the prompt of a case shows.
pub fn shown(case: &Case) -> Option<Media> {
    let model = Model::of_case(case.clone()).expect("it is whole");
    let prompt = Prompt { tokens: case.tokens.clone(), decoded: Vec::new() };
    Shown::default().find(&model, &prompt).expect("its pixels fit")
}

/// A golden case's model, and how an implementation of it rounds.
pub struct Setting {
    /// The case.
    pub case: Case,
    /// How the implementation rounds.
    pub contract: RoundingContract,
    /// The reading of the documents; without one, the case's.
    pub reading: Option<Semantics>,
}

impl Setting {
    /// Of a built-in case.
    pub fn of(name: &str, contract: RoundingContract) -> Self {
        Setting { case: Golden::embedded().case(name).expect("it is built in"), contract, reading: None }
    }

    /// Of a case beside the dumps of known mistakes, which shows what no built-in one can.
    pub fn beside(name: &str, contract: RoundingContract) -> Self {
        let case = Golden::open(&witness::folder()).case(name).expect("it is beside the dumps");
        Setting { case, contract, reading: None }
    }

    /// The reading of the documents.
    pub fn semantics(&self) -> Semantics {
        self.reading.unwrap_or_else(|| self.stated())
    }

    fn stated(&self) -> Semantics {
        let stated = self.case.manifest.semantics.as_ref().expect("a case states its reading");
        stated.parse().expect("the case states one")
    }

    /// In words.
    pub fn name(&self) -> String {
        let reading = self.reading.map(|reading| format!(" read as {reading}")).unwrap_or_default();
        format!("{} {}{reading}", self.case.name, self.contract)
    }

    /// What an implementation with these mistakes computes of the case's prompt.
    pub fn run(&self, assumption: &Assumption) -> Live {
        let checkpoint = self.case.checkpoint().expect("it is whole");
        let held = HeldWeights::under(&self.contract, checkpoint.config().norm_weight, &checkpoint);
        let weights = assumption.weights(checkpoint.config(), &held);
        let media = shown(&self.case);
        let model = assumption.model(checkpoint.config(), &weights).expect("the mistake can be made here");
        computed(&model.seeing(media.as_ref()), &self.case.tokens, self.contract)
    }

    /// What an implementation computes whose configuration and weights were changed.
    pub fn changed(&self, change: impl FnOnce(&mut Config, &mut MemoryWeights)) -> Live {
        let checkpoint = self.case.checkpoint().expect("it is whole");
        let mut config = checkpoint.config().clone();
        let mut weights = MemoryWeights::copy(&config, &checkpoint).expect("it is whole");
        change(&mut config, &mut weights);
        let held = HeldWeights::under(&self.contract, config.norm_weight, &weights);
        let media = shown(&self.case);
        let model = Decoder::new(&config, self.semantics(), &held).expect("the change keeps the contract");
        computed(&model.seeing(media.as_ref()), &self.case.tokens, self.contract)
    }

    /// With these mistakes.
    pub fn with(&self, mistakes: &[Assumed]) -> Live {
        let none = Assumption::none(self.semantics());
        let all = mistakes.iter().try_fold(none, |all, mistake| all.and(mistake.clone()));
        self.run(&all.expect("they can be assumed"))
    }

    /// What is said of a candidate.
    pub fn diagnose(&self, candidate: &dyn Candidate) -> Diagnosis {
        self.compare(candidate, |comparison| diagnose(comparison, |_| ()).expect("it can be put next to the reference"))
    }

    /// What `f` makes of a candidate next to the reference.
    pub fn compare<R>(&self, candidate: &dyn Candidate, f: impl FnOnce(&Comparison<'_>) -> R) -> R {
        let checkpoint = self.case.checkpoint().expect("it is whole");
        let media = shown(&self.case);
        let compared = Compared {
            config: checkpoint.config(),
            weights: &checkpoint,
            semantics: self.semantics(),
            candidate,
            steps: std::slice::from_ref(&self.case.tokens),
            prompt: self.case.tokens.len(),
            media: media.as_ref(),
            hidden: None,
        };
        f(&Comparison::new(compared, self.contract))
    }

    /// Every known mistake that can be made here, in each of its ways.
    pub fn mistakes(&self) -> Vec<Assumed> {
        let checkpoint = self.case.checkpoint().expect("it is whole");
        let tokens = self.case.tokens.len();
        let clue = Clue { position: tokens / 2, last: tokens / 4, tokens, context: tokens / 2 };
        let all = list::all().flat_map(|mistake| mistake.cases(checkpoint.config(), clue));
        all.filter(|assumed| !assumed.change.is_in(&self.semantics())).collect()
    }

    /// The first way of a mistake.
    pub fn mistake(&self, name: &str) -> Assumed {
        let named = self.mistakes().into_iter().find(|assumed| assumed.mistake.name == name);
        named.unwrap_or_else(|| panic!("{name} cannot be made here"))
    }
}
