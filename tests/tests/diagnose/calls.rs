//! What is wrong in some calls alone, or in some rows, is told with these.

use fixtures::checkpoint::memory::MemoryWeights;
use fixtures::names::at::At;
use ndarray::Array2;
use optimized::models::capture::Capture;
use reference::config::Config;
use reference::models::decoder::Decoder;
use reference::ops::kv_cache::KvCache;
use reference::probe::Probe;
use reference::run::Run;
use reference::site::Extent;
use reference::weights::{Projection, Weights};
use reference::{LayerSite, RoundingContract, Semantics, Site, Tracked};
use tests::mistaken::Setting;
use tools::diagnose::diagnosis::{Diagnosis, diagnose};
use tools::failure::Failure;
use tools::judge::candidate::{Candidate, Live};
use tools::judge::compared::Compared;
use tools::judge::comparison::Comparison;

use super::altered::{expert, map, told};

/// One call after the other.
#[derive(Default)]
pub(super) struct Calls(pub(super) Vec<Live>);

impl Calls {
    fn of(&self, at: At) -> (&Live, At) {
        (&self.0[at.step], At { step: 0, ..at })
    }
}

impl Candidate for Calls {
    fn has(&self, at: At) -> bool {
        let (live, at) = self.of(at);
        live.has(at)
    }

    fn matrix(&self, at: At, extent: Extent) -> Result<Array2<f64>, Failure> {
        let (live, at) = self.of(at);
        live.matrix(at, extent)
    }

    fn choices(&self, at: At, extent: Extent) -> Result<Array2<usize>, Failure> {
        let (live, at) = self.of(at);
        live.choices(at, extent)
    }

    fn size(&self, at: At) -> Option<(usize, usize)> {
        let (live, at) = self.of(at);
        live.size(at)
    }

    fn under<'a>(&'a self, _: &Config) -> Box<dyn Candidate + 'a> {
        Box::new(self)
    }
}

/// Keeps what the last call shows of some sites.
struct Recorder(Calls, fn(Site) -> bool);

impl Probe<f32> for Recorder {
    fn visit(&mut self, site: Site, value: &mut Tracked<f32>) {
        let live = self.0.0.last_mut().expect("a call has begun");
        if self.1(site) {
            Capture::value(live, site, value.value.clone());
        }
    }

    fn choose(&mut self, site: Site, _: &Tracked<f32>, chosen: &mut Array2<usize>) {
        let live = self.0.0.last_mut().expect("a call has begun");
        if self.1(site) {
            Capture::choices(live, site, chosen.clone());
        }
    }
}

/// What is said of an implementation whose calls each compute as a model of their own, the first up to a position, and so on.
fn diagnosed(setting: &Setting, ends: &[usize], models: &[(Semantics, &dyn Weights)]) -> Diagnosis {
    diagnosed_by(|_| true, setting, ends, models)
}

/// The same of one that shows some sites.
fn diagnosed_by(
    shows: fn(Site) -> bool,
    setting: &Setting,
    ends: &[usize],
    models: &[(Semantics, &dyn Weights)],
) -> Diagnosis {
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    let config = checkpoint.config();
    let steps = steps(&setting.case.tokens, ends);
    assert_eq!(steps.len(), models.len());
    let (mut recorder, mut cache) = (Recorder(Calls::default(), shows), KvCache::new(config.num_hidden_layers));
    for (tokens, (semantics, weights)) in steps.iter().zip(models) {
        recorder.0.0.push(Live::default());
        let model = Decoder::new(config, *semantics, *weights).expect("a model");
        let mut run = Run::<f32>::new(setting.contract, &mut recorder);
        model.forward(tokens, &mut cache, &mut run).expect("it runs");
    }
    said(setting, &recorder.0, &steps)
}

/// A prompt's tokens call by call, the first up to a position, and so on.
pub(super) fn steps(tokens: &[u32], ends: &[usize]) -> Vec<Vec<u32>> {
    let begins = std::iter::once(0).chain(ends.iter().copied());
    let ends = ends.iter().copied().chain([tokens.len()]);
    begins.zip(ends).map(|(begin, end)| tokens[begin..end].to_vec()).collect()
}

/// What is said of calls.
pub(super) fn said(setting: &Setting, calls: &Calls, steps: &[Vec<u32>]) -> Diagnosis {
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    let compared = Compared {
        config: checkpoint.config(),
        weights: &checkpoint,
        semantics: setting.semantics(),
        candidate: calls,
        steps,
        prompt: steps[0].len(),
        media: None,
        hidden: None,
    };
    diagnose(&Comparison::new(compared, setting.contract), |_| ()).expect("it can be put next to the reference")
}

/// The checkpoint with the output projection of an expert half as large again.
fn larger(setting: &Setting) -> MemoryWeights {
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    let mut weights = MemoryWeights::copy(checkpoint.config(), &checkpoint).expect("it is whole");
    map(&mut weights, expert(1, 3, Projection::Down), |w| 1.5 * w);
    weights
}

/// The same of one that reads a field otherwise in all calls but the first.
pub(super) fn reading_later(case: &str, ends: &[usize], (field, value): (&str, &str)) -> Diagnosis {
    let setting = Setting::of(case, RoundingContract::EAGER_F32);
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    let right = setting.semantics();
    let other = right.with(field, value).expect("a reading");
    let models = std::iter::once(right).chain(ends.iter().map(|_| other));
    let models: Vec<(Semantics, &dyn Weights)> =
        models.map(|semantics| (semantics, &checkpoint as &dyn Weights)).collect();
    diagnosed(&setting, ends, &models)
}

/// Where layers are shown in bf16, of which bounds are wide, a seam between calls brings all within them and gives few of the values that
/// are off: what is made in later calls alone gives all.
#[test]
fn what_gives_few_values_does_not_stand_for_what_gives_all() {
    let shows = |site: Site| match site {
        Site::Layer(_, site) => matches!(site, LayerSite::Attention | LayerSite::Mlp | LayerSite::Output),
        site => site == Site::Embedding,
    };
    let setting = Setting::of("m2-sharded-bf16", RoundingContract::EAGER_BF16);
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    let right = setting.semantics();
    let strict = right.with("causal", "strict").expect("a reading");
    let ends = [24, 25, 26, 27, 28];
    let models = std::iter::once(right).chain(ends.iter().map(|_| strict));
    let models: Vec<(Semantics, &dyn Weights)> =
        models.map(|semantics| (semantics, &checkpoint as &dyn Weights)).collect();
    let diagnosis = diagnosed_by(shows, &setting, &ends, &models);
    told(&diagnosis, "causal_off_by_one", "causal=strict in calls from position 24 on");
}

#[test]
fn a_reading_of_later_calls() {
    let diagnosis = reading_later("m3-gqa4-f32", &[20], ("msa_mask", "all"));
    told(&diagnosis, "sparse_as_full", "msa_mask=all in calls from position 20 on");
}

/// What the first of later calls cannot tell: whether nothing of the calls before is seen, or nothing of the prompt.
#[test]
fn calls_before_that_are_not_seen() {
    for value in ["context", "prompt:20"] {
        let way = format!("unseen={value}");
        let diagnosis = reading_later("m2-gqa3-f32", &[20, 30], ("unseen", value));
        let explained = told(&diagnosis, "kv_cache_seam", &way);
        assert_eq!(explained.way, way, "{diagnosis:#?}");
    }
}

/// A later call's choices are of another size, which no reading of all calls has: it is at fault, and is judged as far as it goes.
#[test]
fn fewer_experts_in_later_calls() {
    let diagnosis = reading_later("m2-gqa3-f32", &[20], ("top_k", "2"));
    let fault = diagnosis.unexplained.expect("nothing explains it");
    assert_eq!((fault.step, fault.site.layer()), (1, Some(0)), "{fault:#?}");
    assert_eq!(fault.note.as_deref(), Some("it is 20 × 2, expected 20 × 3"), "{fault:#?}");
}

#[test]
fn weights_of_the_first_call() {
    let setting = Setting::of("m2-gqa3-f32", RoundingContract::EAGER_F32);
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    let (right, larger) = (setting.semantics(), larger(&setting));
    let first = setting.case.tokens.len() / 2;
    let diagnosis = diagnosed(&setting, &[first], &[(right, &larger), (right, &checkpoint)]);
    let explained = told(&diagnosis, "weight_scaled", "down_proj of expert 3 in layer 1 is 1.5");
    let calls = format!("in calls before position {first}");
    assert!(explained.way.ends_with(&calls), "{}", explained.way);
}

/// Of what holds in every call, the first may show nothing: then it is not told of some alone.
#[test]
fn weights_of_every_call() {
    let setting = Setting::of("m2-gqa3-f32", RoundingContract::EAGER_F32);
    let (right, larger) = (setting.semantics(), larger(&setting));
    for first in [1, setting.case.tokens.len() / 2] {
        let diagnosis = diagnosed(&setting, &[first], &[(right, &larger), (right, &larger)]);
        let explained = told(&diagnosis, "weight_scaled", "down_proj of expert 3 in layer 1 is 1.5");
        assert!(explained.way.ends_with("times the checkpoint's"), "{}", explained.way);
    }
}

/// A whole tile is written, and what is left over is not.
#[test]
fn rows_that_are_not_written() {
    for (case, of) in [("m2-gqa3-f32", "experts"), ("m3-gqa4-f32", "o_proj")] {
        let setting = Setting::of(case, RoundingContract::EAGER_F32);
        let checkpoint = setting.case.checkpoint().expect("it is whole");
        let rows = format!("{of}:16..");
        let semantics = setting.semantics().with("unwritten", &rows).expect("a reading");
        let first = setting.case.tokens.len() - 1;
        let diagnosis = diagnosed(&setting, &[first], &[(semantics, &checkpoint), (semantics, &checkpoint)]);
        let told = diagnosis.explained.first().map(|explained| (explained.name, explained.way.as_str()));
        assert_eq!((told, diagnosis.left), (Some(("rows_unwritten", &*format!("unwritten={rows}"))), 0));
    }
}
