//! What is one percent off in a part of a bf16 model stays within its bounds, where products and sums are not shown one by one,
//! and is seen by the structure of what is not the twin's: of which values, and by how much.

mod calibration;

use std::ops::Range;

use fixtures::checkpoint::memory::MemoryWeights;
use ndarray::{Array2, s};
use reference::config::Config;
use reference::models::decoder::Decoder;
use reference::rounding::AttentionRound;
use reference::weights::{LayerWeight, Projection, Weight, Weights};
use reference::{LayerSite, RoundingContract, Semantics, Site, Storage};
use tests::memory::{Memory, tiny};
use tests::mistaken::{Setting, computed};
use tests::seen::{Seen, modules};
use tools::judge::lens::Lens;
use tools::judge::structure::{Group, Structure};
use tools::judge::verdict::{SiteReport, Verdict};
use tools::judge::verification::Verification;

/// A run of which a dump is made.
struct Run {
    /// Rows of a matrix whose weights are one percent larger.
    larger: Option<(Weight, Range<usize>)>,
    attention: AttentionRound,
    shows: fn(Site) -> bool,
    value: fn(Site, Array2<f64>) -> Array2<f64>,
}

/// A right one, of the precision that it is judged in.
const RIGHT: Run = Run { larger: None, attention: AttentionRound::Eager, shows: modules, value: |_, value| value };

/// What hooks on a layer's norms, attention and MLP show, and on the layer.
fn parts(site: Site) -> bool {
    use LayerSite::{Attention, InputNorm, KNorm, Mlp, Output, PostAttentionNorm, QNorm};
    let shown = [Attention, InputNorm, KNorm, Mlp, Output, PostAttentionNorm, QNorm];
    matches!(site, Site::Layer(_, site) if shown.contains(&site))
}

/// What is said of a run of a case.
fn reports(case: &str, run: Run) -> Vec<SiteReport> {
    let setting = Setting::of(case, RoundingContract::EAGER_BF16);
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    reports_of(
        &(checkpoint.config(), setting.semantics(), &checkpoint),
        std::slice::from_ref(&setting.case.tokens),
        run,
    )
}

/// What is said of a run of a model.
fn reports_of(of: &(&Config, Semantics, &dyn Weights), steps: &[Vec<u32>], run: Run) -> Vec<SiteReport> {
    let (&(config, semantics, right), contract) = (of, RoundingContract::EAGER_BF16);
    let Run { larger, attention, shows, value } = run;
    let mut weights = MemoryWeights::copy(config, right).expect("it is whole");
    if let Some((weight, rows)) = larger {
        let mut values: Array2<f64> = right.get(weight).expect("it is there").dense();
        values.slice_mut(s![rows, ..]).mapv_inplace(|w| 1.01 * w);
        weights.insert(weight, values.view(), Storage::Bf16);
    }
    let made = Decoder::new(config, semantics, &weights).expect("it fits");
    let live = computed(&made, &steps[0], RoundingContract { attention, ..contract });
    let model = Decoder::new(config, semantics, right).expect("it fits");
    let layers = 0..config.num_hidden_layers;
    let (candidate, prompt, lenses) = (&Seen { live: &live, shows, value }, steps[0].len(), &[Lens::Local]);
    let verification = Verification { model: &model, candidate, contract, steps, prompt, lenses, layers, keep: None };
    verification.run(|| ()).expect("it can be put next to the reference").sites
}

/// The one site that is suspicious, and why.
fn suspicious(case: &str, shows: fn(Site) -> bool, weight: Weight, rows: Range<usize>) -> (Site, Vec<Structure>) {
    let mut reports = reports(case, Run { larger: Some((weight, rows)), shows, ..RIGHT });
    reports.retain(|report| report.verdict >= Verdict::Suspicious);
    let [report] = &reports[..] else { panic!("{case}: {weight:?}: {reports:#?}") };
    assert_eq!(report.verdict, Verdict::Suspicious, "{report:#?}");
    (report.site, report.structures.clone())
}

#[test]
fn a_right_run_has_none() {
    for case in ["m2-sharded-bf16", "m3-sharded-bf16"] {
        for shows in [modules, parts] {
            let mut reports = reports(case, Run { shows, ..RIGHT }).into_iter();
            let is_any = |report: &SiteReport| report.verdict >= Verdict::Suspicious || report.hint.is_some();
            assert_eq!(reports.find(is_any), None, "{case}");
        }
    }
}

/// Half of those values of the first layer's norm whose neighbours are near, in parts of their size, are these.
fn nudge(site: Site, mut value: Array2<f64>) -> Array2<f64> {
    let is_near = |x: f64| x != 0.0 && x.abs() / x.abs().log2().floor().exp2() > 1.5;
    if site == Site::Layer(0, LayerSite::InputNorm) {
        let some = value.iter_mut().enumerate().filter(|(i, x)| i * 2_654_435_761 % 64 < 32 && is_near(**x));
        let to = |i: usize| if i * 2_654_435_761 % 128 < 64 { 1.0 - 1.0 / 320.0 } else { 1.0 + 1.0 / 320.0 };
        some.for_each(|(i, x)| *x = Storage::Bf16.nearest(*x * to(i)));
    }
    value
}

/// The norms of other layers have their twin's values: that of the first, before which nothing is computed, has to have them, too.
#[test]
fn a_norm_that_rounds_otherwise_is_suspicious() {
    let norm = Site::Layer(0, LayerSite::InputNorm);
    let shows = |site| modules(site) && site != Site::Embedding;
    let reports = reports("m2-sharded-bf16", Run { shows, value: nudge, ..RIGHT });
    let of_norm: Vec<&SiteReport> = reports.iter().filter(|report| report.site == norm).collect();
    assert!(matches!(of_norm[..], [report] if report.verdict == Verdict::Suspicious), "{of_norm:#?}");
}

/// Behind values that are not shown tokens do not err by themselves: no layer says enough by itself, but all of them together do.
#[test]
fn an_attention_that_rounds_otherwise_is_suspicious() {
    for (attention, layers, expected) in
        [(AttentionRound::Flash, 2, 0), (AttentionRound::Flash, 12, 12), (AttentionRound::Eager, 12, 0)]
    {
        let config = Config { num_hidden_layers: layers, ..tiny() };
        let weights = Memory::random(&config, 1);
        let model = (&config, Semantics::RELEASED, &weights as &dyn Weights);
        let mut reports = reports_of(&model, &[(0..10).collect()], Run { attention, shows: parts, ..RIGHT });
        reports.retain(|report| report.verdict >= Verdict::Suspicious);
        let suspicious: Vec<Site> = reports.iter().map(|report| report.site).collect();
        let of_layer = |layer| Site::Layer(layer, LayerSite::Attention);
        assert_eq!(suspicious, (0..expected).map(of_layer).collect::<Vec<_>>(), "{attention:?}, {layers} layers");
    }
}

#[test]
fn an_expert_is_named() {
    let weight = Weight::Layer(1, LayerWeight::Expert(1, Projection::Down));
    for shows in [modules, parts] {
        let (site, found) = suspicious("m2-sharded-bf16", shows, weight, 0..128);
        assert_eq!(site, Site::Layer(1, LayerSite::Mlp));
        assert_eq!(found.iter().map(|one| one.of).collect::<Vec<_>>(), [Group::Expert(1)]);
    }
}

/// What is suspicious of many tokens is no verdict of few, and is told of some in between.
#[test]
fn what_few_tokens_show_is_a_hint() {
    let setting = Setting::of("m2-sharded-bf16", RoundingContract::EAGER_BF16);
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    let model = (checkpoint.config(), setting.semantics(), &checkpoint as &dyn Weights);
    let site = Site::Layer(1, LayerSite::Mlp);
    let told = |tokens: usize| {
        let larger = Some((Weight::Layer(1, LayerWeight::Expert(5, Projection::Down)), 0..128));
        let run = Run { larger, shows: parts, ..RIGHT };
        let reports = reports_of(&model, &[setting.case.tokens[..tokens].to_vec()], run);
        let report = reports.into_iter().find(|report| report.site == site).expect("it is shown");
        (report.verdict, report.hint.is_some())
    };
    let all: Vec<_> = (2..=setting.case.tokens.len()).step_by(2).map(told).collect();
    assert!(all.contains(&(Verdict::Within, true)) && all.contains(&(Verdict::Within, false)), "{all:?}");
    assert!(!all.contains(&(Verdict::Suspicious, true)), "{all:?}");
    assert_eq!(all.iter().map(|(verdict, _)| *verdict).max(), Some(Verdict::Suspicious), "{all:?}");
}

#[test]
fn a_row_of_a_projection_is_named() {
    let (site, found) = suspicious("m2-sharded-bf16", modules, Weight::Layer(1, LayerWeight::OProj), 17..18);
    assert_eq!(site, Site::Layer(1, LayerSite::Attention));
    assert_eq!(found.iter().map(|one| one.of).collect::<Vec<_>>(), [Group::Channel(17)]);
}

#[test]
fn a_gain_of_all_values_is_told() {
    let weight = Weight::Layer(0, LayerWeight::Dense(Projection::Down));
    let (site, found) = suspicious("m3-sharded-bf16", modules, weight, 0..96);
    assert_eq!(site, Site::Layer(0, LayerSite::Mlp));
    let [Structure { of: Group::All, gain: Some(gain), .. }] = found[..] else { panic!("{found:#?}") };
    assert!((0.009..0.011).contains(&gain), "{gain}");
}
