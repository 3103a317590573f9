//! What transformers computed, layer by layer and through the full decode, next to the reference.

use fixtures::activations::dump::Dump;
use fixtures::checkpoint::held::HeldWeights;
use fixtures::golden::Case;
use fixtures::names::at::At;
use fixtures::names::map::NameMap;
use fixtures::names::sited::Sited;
use ndarray::Array2;
use optimized::device::Gpu;
use optimized::models::capture::Capture;
use optimized::models::decoder::Decoder as Optimized;
use proptest::prelude::*;
use reference::config::Config;
use reference::decode::{Decode, decode};
use reference::models::decoder::Decoder;
use reference::ops::sampling::Sampling;
use reference::probe::NoProbe;
use reference::real::Real;
use reference::run::Run;
use reference::site::Extent;
use reference::{RoundingContract, Semantics, Site};
use tests::device::devices;
use tests::mistaken::shown;
use tests::repository;
use tools::failure::Failure;
use tools::judge::candidate::{Candidate, Live};
use tools::judge::found::Found;
use tools::judge::lens::Lens;
use tools::judge::verdict::{SiteReport, Verdict};
use tools::judge::verification::Verification;

fn cases() -> Vec<Case> {
    let golden = repository::golden();
    let names = golden.names().expect("there are cases");
    names.iter().map(|name| golden.case(name).expect("it is whole")).collect()
}

fn semantics(case: &Case) -> Semantics {
    case.manifest.semantics.as_deref().expect("it is recorded").parse().expect("a reading")
}

fn contract(case: &Case) -> RoundingContract {
    case.manifest.precision.as_deref().expect("it is recorded").parse().expect("a contract")
}

/// What was computed for the prompt.
fn expected(case: &Case) -> Sited {
    let dump = case.expected().expect("it is whole");
    let config = case.checkpoint().expect("it is whole").config().under(&semantics(case));
    Sited::new(dump, &config, &NameMap::shipped())
}

fn extent(case: &Case) -> Extent {
    let patches = shown(case).map(|media| media.patches()).unwrap_or_default();
    Extent::new(case.tokens.len(), case.tokens.len()).seeing(patches)
}

/// Judges values of a case's prompt.
fn verify(
    case: &Case,
    candidate: &dyn Candidate,
    lenses: &[Lens],
    judge: impl FnOnce(&Verification<'_>) -> Vec<SiteReport>,
) -> Vec<SiteReport> {
    let (weights, media) = (case.checkpoint().expect("it is whole"), shown(case));
    let model = Decoder::new(weights.config(), semantics(case), &weights).expect("it fits").seeing(media.as_ref());
    let layers = 0..weights.config().num_hidden_layers;
    let steps = [case.tokens.clone()];
    let (contract, prompt) = (contract(case), case.tokens.len());
    let verification =
        Verification { model: &model, candidate, contract, steps: &steps, prompt, lenses, layers, keep: None };
    judge(&verification)
}

fn reports_of(found: Result<Found, Failure>) -> Vec<SiteReport> {
    found.expect("it can be read").sites
}

#[test]
fn every_module_output_is_within_its_bound() {
    for case in cases() {
        let candidate = expected(&case);
        let reports =
            verify(&case, &candidate, &[Lens::Local, Lens::Layer, Lens::Global], |all| reports_of(all.run(|| ())));
        for report in &reports {
            let right = matches!(report.verdict, Verdict::Exact | Verdict::Within | Verdict::Tie);
            assert!(right, "{}: {report:#?}", case.name);
        }
        for at in candidate.sites() {
            let judged = reports.iter().any(|report| report.site == at.site && report.lens == Lens::Local);
            assert!(judged, "{}: {at} was not compared", case.name);
        }
    }
}

#[test]
fn the_greedy_decode_is_the_same() {
    for case in cases() {
        let (weights, media) = (case.checkpoint().expect("it is whole"), shown(&case));
        let model = Decoder::new(weights.config(), semantics(&case), &weights).expect("it fits").seeing(media.as_ref());
        let want = case.decode.as_ref().expect("every case has one");
        assert!(want.tokens.len() >= 24, "{}: {} tokens", case.name, want.tokens.len());
        let how = Decode { tokens: want.tokens.len(), sampling: Sampling::Greedy, seed: 0, chunk: None };
        let mut unseen = NoProbe;
        let mut run = Run::<f64>::new(RoundingContract::IDEAL, &mut unseen);
        let got = decode(&model, &case.tokens, &how, &mut run, |_| ()).expect("it runs");
        let tokens: Vec<u32> = got.iter().map(|choice| choice.token).collect();
        assert_eq!(tokens, want.tokens, "{}", case.name);
        let margins: Vec<f32> = want.margins.iter().map(|&margin| f32::of(margin)).collect();
        assert_eq!(leads(&case), margins, "{}", case.name);
    }
}

/// By how much the best logit leads at each step, as it was dumped: in f32, as the original subtracted.
fn leads(case: &Case) -> Vec<f32> {
    let config = case.checkpoint().expect("it is whole").config().under(&semantics(case));
    let sited = |dump: Dump| Sited::new(dump, &config, &NameMap::shipped());
    let last = |sited: &Sited, at: At, extent: Extent| -> f32 {
        let logits: Array2<f64> = sited.matrix(at, extent).expect("it is dumped");
        let mut row = logits.row(logits.nrows() - 1).to_vec();
        row.sort_by(f64::total_cmp);
        let [.., second, best] = row[..] else { panic!("{}: fewer than two tokens", case.name) };
        f32::of(best) - f32::of(second)
    };
    let at = |step| At { step, site: Site::Logits };
    let first = last(&sited(case.expected().expect("it is whole")), at(0), extent(case));
    let steps = case.decode.as_ref().map_or(0, |decode| decode.tokens.len());
    let decoded = sited(case.decoded().expect("it is whole").expect("every case has one"));
    let of_step = |step| last(&decoded, at(step), Extent::new(1, case.tokens.len() + step));
    [first].into_iter().chain((1..steps).map(of_step)).collect()
}

/// The original's values, one of them off.
struct OneOff<'a> {
    values: &'a Sited,
    site: Site,
    place: (usize, usize),
}

impl Candidate for OneOff<'_> {
    fn has(&self, at: At) -> bool {
        Candidate::has(self.values, at)
    }

    fn matrix(&self, at: At, extent: Extent) -> Result<Array2<f64>, Failure> {
        let mut matrix = Candidate::matrix(self.values, at, extent)?;
        if at.site == self.site {
            matrix[self.place] *= 1.01;
        }
        Ok(matrix)
    }

    fn choices(&self, at: At, extent: Extent) -> Result<Array2<usize>, Failure> {
        Candidate::choices(self.values, at, extent)
    }

    fn size(&self, at: At) -> Option<(usize, usize)> {
        self.values.size(at)
    }

    fn under<'a>(&'a self, _: &Config) -> Box<dyn Candidate + 'a> {
        Box::new(self)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn one_value_off_by_a_percent_is_a_fault_there(which in 0..12_usize, site: prop::sample::Index, place: prop::sample::Index) {
        let case = cases().into_iter().filter(|case| contract(case) == RoundingContract::EAGER_F32).nth(which);
        let case = case.expect("there are twelve");
        let values = expected(&case);
        let sites: Vec<Site> = values.sites().map(|at| at.site).filter(|site| !site.is_choice()).collect();
        let site = *site.get(&sites);
        let matrix: Array2<f64> = values.matrix(At { step: 0, site }, extent(&case)).expect("it is dumped");
        // A percent of next to nothing is nothing: of a value that counts among its site's.
        let largest = matrix.iter().fold(0.0_f64, |top, x| top.max(x.abs()));
        let large: Vec<(usize, usize)> = matrix.indexed_iter().filter(|(_, x)| x.abs() > 0.1 * largest).map(|(at, _)| at).collect();
        let candidate = OneOff { values: &values, site, place: *place.get(&large) };
        let reports = verify(&case, &candidate, &[Lens::Local], |one| reports_of(one.without_twin()));
        let first = reports.iter().find(|report| report.verdict == Verdict::Fault);
        prop_assert_eq!(first.map(|report| report.site), Some(site));
        let worst = first.and_then(|report| report.worst.clone()).expect("a fault has a worst value");
        prop_assert_eq!((worst.index[worst.index.len() - 1], first.map(|f| f.faults)), (candidate.place.1, Some(1)));
    }
}

/// What the CUDA path computes of a case, and the bits of it.
#[derive(Default, PartialEq)]
struct Computed {
    live: Live,
    bits: Vec<(Site, Vec<u32>)>,
}

impl Capture for Computed {
    fn value(&mut self, site: Site, value: Array2<f32>) {
        self.bits.push((site, value.iter().map(|value| value.to_bits()).collect()));
        self.live.value(site, value);
    }

    fn choices(&mut self, site: Site, chosen: Array2<usize>) {
        Capture::choices(&mut self.live, site, chosen);
    }
}

/// The prompt in one pass but for its last tokens; these and `decoded` one by one.
fn computed(case: &Case, gpu: Gpu, decoded: u32) -> Computed {
    let (weights, media) = (case.checkpoint().expect("it is whole"), shown(case));
    let model = Optimized::load(gpu, weights.config(), &semantics(case), &weights, || ()).expect("it fits");
    let (prompt, rest) = case.tokens.split_at(case.tokens.len() - 3);
    let mut seen = Computed::default();
    let mut cache = model.cache(case.tokens.len() + 1).expect("it fits");
    let features = media.as_ref().map(|media| model.features(media, Some(&mut seen)).expect("it sees"));
    model.forward(prompt, &features.unwrap_or_default(), &mut cache, Some(&mut seen)).expect("it runs");
    for token in rest.iter().chain([&decoded]) {
        model.forward(&[*token], &[], &mut cache, Some(&mut seen)).expect("it runs");
    }
    seen
}

/// Both forms of the emulated device compute the same bits, so what is found of one is true of the other.
#[test]
fn the_cuda_path_is_within_its_bounds_on_every_case() {
    for case in cases() {
        let (weights, media) = (case.checkpoint().expect("it is whole"), shown(&case));
        // After the prompt, a model may decode the very token that stood for an image: there it is a token like others.
        let decoded = weights.config().vision.as_ref().map_or(1, |vision| vision.image_token);
        let is_emulated = devices().iter().all(|gpu| gpu.form().is_some());
        let mut of_devices = devices().into_iter().map(|gpu| computed(&case, gpu, decoded));
        let seen = of_devices.next().expect("there is a device");
        assert!(of_devices.all(|other| other == seen), "{}: the forms' bits differ", case.name);
        let rounded = HeldWeights::under(&RoundingContract::PARITY, weights.config().norm_weight, &weights);
        let reference =
            Decoder::new(weights.config(), semantics(&case), &rounded).expect("it fits").seeing(media.as_ref());
        let verification = Verification {
            model: &reference,
            candidate: &seen.live,
            contract: RoundingContract::PARITY,
            steps: &[[&case.tokens[..], &[decoded]].concat()],
            prompt: case.tokens.len(),
            lenses: &[Lens::Local, Lens::Global],
            layers: 0..weights.config().num_hidden_layers,
            keep: None,
        };
        let reports = verification.run(|| ()).expect("it can be read").sites;
        assert!(reports.len() > 20, "{}: {} comparisons", case.name, reports.len());
        let exact = verification.exactness(is_emulated, || ()).expect("it can be read").expect("the order is fixed");
        let (local, of_order) = (reports.iter().filter(|report| report.lens == Lens::Local).count(), exact.sites.len());
        assert_eq!(of_order, local, "{}", case.name);
        let differing: Vec<_> = exact.differing().collect();
        assert!(!is_emulated || differing.is_empty(), "{}: {differing:#?}", case.name);
        for report in reports {
            let right = matches!(report.verdict, Verdict::Exact | Verdict::Within | Verdict::Tie);
            assert!(right, "{}: {report:#?}", case.name);
        }
    }
}
