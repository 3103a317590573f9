//! What a dump can show: what is said to be ruled out is found where it is made, and what cannot be shown passes.

use std::ops::Range;
use std::sync::LazyLock;

use ndarray::s;
use rayon::prelude::*;
use reference::weights::{LayerWeight, Projection, Weight, Weights};
use reference::{LayerSite, RoundingContract, Site, Storage};
use tests::mistaken::{Setting, needs_calls};
use tests::seen::Seen;
use tools::compare::selection::Selection;
use tools::diagnose::catalogue::mistake::Assumed;
use tools::diagnose::detection::experts::ExpertsOf;
use tools::diagnose::detection::gains::{Gain, Of};
use tools::diagnose::detection::mistakes::Outcome;
use tools::diagnose::detection::{Detection, detect};
use tools::judge::candidate::{Candidate, Live};
use tools::judge::lens::Lens;
use tools::judge::verdict::Verdict;
use tools::session::model::Model;
use tools::session::propose::{Proposal, Wish, propose};

/// A part of their bounds by which values may move and leave a right run room for its own roundings.
const SMALL: f64 = 0.2;

/// Of so many ways of mistakes one is made.
const EVERY: usize = 3;

/// A case whose prompt is cut, or another.
fn setting(case: &str, contract: RoundingContract, tokens: impl FnOnce(&mut Vec<u32>)) -> Setting {
    let mut setting = Setting::of(case, contract);
    tokens(&mut setting.case.tokens);
    setting
}

fn detected(setting: &Setting, candidate: &dyn Candidate, layers: Option<Range<usize>>) -> Detection {
    setting.compare(candidate, |comparison| {
        let model = comparison.model().expect("it fits");
        let layers = layers.unwrap_or(0..model.config().num_hidden_layers);
        detect(comparison, &layers, |_| ()).expect("it can be tried")
    })
}

/// Whether the local lens finds anything, or cannot even compare it.
fn is_blamed(setting: &Setting, candidate: &dyn Candidate) -> bool {
    setting.compare(candidate, |comparison| {
        let model = comparison.model().expect("it fits");
        let layers = 0..model.config().num_hidden_layers;
        let found = comparison.verification(&model, &[Lens::Local], layers).run(|| ());
        found.map_or(true, |found| found.sites.iter().any(|report| report.verdict >= Verdict::Suspicious))
    })
}

/// What hooks on modules show of a router and its experts: the logits, the choice, and what comes of it.
fn modules(live: &Live) -> impl Candidate + '_ {
    use LayerSite::{ExpertHidden, ExpertOutput, Experts, GateChoice, GateScores, GateWeights};
    let shows = |site| match site {
        Site::Layer(_, site) => {
            ![GateScores, GateChoice, GateWeights, ExpertHidden, ExpertOutput, Experts].contains(&site)
        }
        _ => true,
    };
    Seen { live, shows, value: |_, value| value }
}

/// A right run in bf16, of whose routers and experts hooks on modules show what they can, and what that can show.
static COARSE: LazyLock<(Setting, Detection)> = LazyLock::new(|| {
    let setting = setting("m2-sharded-bf16", RoundingContract::EAGER_BF16, |_| ());
    let detection = detected(&setting, &modules(&setting.with(&[])), None);
    (setting, detection)
});

/// The names of the mistakes that are not ruled out.
fn left(detection: &Detection) -> Vec<&str> {
    detection.mistakes.iter().filter(|known| !known.is_ruled_out()).map(|known| known.name).collect()
}

fn proposed(case: &str, length: Option<usize>, seed: u64) -> Proposal {
    let model = Model::open(case).expect("it is built in");
    let wish = Wish { length, start: None, seed, layers: Selection::default() };
    propose(&model, model.semantics().expect("it states one"), &wish, &mut |_| ()).expect("it can be searched")
}

#[test]
fn what_is_ruled_out_is_found_and_what_cannot_be_shown_passes() {
    let settings = [
        setting("m2-gqa3-f32", RoundingContract::EAGER_F32, |_| ()),
        setting("m3-sharded-bf16", RoundingContract::EAGER_BF16, |tokens| tokens.truncate(6)),
    ];
    let mut counts = [0, 0];
    for setting in settings {
        let detection = detected(&setting, &setting.with(&[]), None);
        let outcome = |name: &str, way: &str| {
            let known = detection.mistakes.iter().find(|known| known.name == name).expect("it is known");
            known.ways.iter().find(|one| one.way == way).expect("it is tried").outcome.clone()
        };
        let is_ruled_out =
            |assumed: &Assumed| matches!(outcome(assumed.mistake.name, &assumed.way()), Outcome::RuledOut(_));
        // All that cannot be shown, and some of what is ruled out.
        let (ruled_out, mut mistakes): (Vec<Assumed>, Vec<Assumed>) =
            setting.mistakes().into_iter().partition(is_ruled_out);
        counts[1] += mistakes.len();
        mistakes.extend(ruled_out.into_iter().step_by(EVERY));
        counts[0] += mistakes.iter().filter(|assumed| is_ruled_out(assumed)).count();
        let wrong: Vec<String> = mistakes
            .par_iter()
            .filter_map(|assumed| {
                let outcome = outcome(assumed.mistake.name, &assumed.way());
                let found = is_blamed(&setting, &setting.with(std::slice::from_ref(assumed)));
                let is_wrong = match &outcome {
                    Outcome::RuledOut(_) => !found,
                    Outcome::WithinBounds(moved) if moved.choices || moved.bounds > SMALL => false,
                    _ => found,
                };
                is_wrong.then(|| format!("{} {assumed}: found is {found}, and {outcome:?}", setting.name()))
            })
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
    assert!(counts[0] > 20 && counts[1] > 7, "{counts:?}: both are tried");
}

/// Blocks of four keys, of which three are chosen: six tokens see them all.
#[test]
fn a_proposed_prompt_shows_what_six_tokens_cannot() {
    let six = setting("m3-gqa4-f32", RoundingContract::EAGER_F32, |tokens| tokens.truncate(6));
    let short = detected(&six, &six.with(&[]), None);
    let hidden = left(&short);
    for name in ["rope_bf16_position", "block_topk_wrong", "group_mapping", "sparse_as_full"] {
        assert!(hidden.contains(&name), "{name}: {hidden:?}");
    }
    assert!(short.experts.iter().flat_map(|layer| &layer.unseen).any(|unseen| unseen.tokens == 0));

    let proposal = proposed("m3-gqa4-f32", Some(42), 0);
    let more = setting("m3-gqa4-f32", RoundingContract::EAGER_F32, |tokens| tokens.clone_from(&proposal.tokens));
    let long = detected(&more, &more.with(&[]), None);
    let mistakes = || long.mistakes.iter().map(|known| known.name);
    let of_calls: Vec<&str> = mistakes().filter(|name| needs_calls(name)).collect();
    assert!(of_calls.len() > 3, "{of_calls:?}");
    let expected: Vec<&str> =
        mistakes().filter(|name| of_calls.contains(name) || *name == "rope_bf16_position").collect();
    assert_eq!(left(&long), expected);
    assert!(long.experts.iter().all(|ExpertsOf { compared, unseen, .. }| *compared && unseen.is_empty()), "{long:#?}");

    // Of its default length; one layer is enough for positions.
    let proposal = proposed("m3-gqa4-f32", None, 0);
    assert!(proposal.tokens.len() > 256 && !proposal.tokens.len().is_multiple_of(4), "{:?}", proposal.length);
    assert!(proposal.short.is_empty(), "{:?}", proposal.short);
    let whole = setting("m3-gqa4-f32", RoundingContract::EAGER_F32, |tokens| tokens.clone_from(&proposal.tokens));
    let hidden = detected(&whole, &whole.with(&[]), Some(0..1));
    assert!(!left(&hidden).contains(&"rope_bf16_position"), "{:?}", left(&hidden));
}

/// The same gain in an expert that enough tokens chose, and in one that too few did.
#[test]
fn an_expert_that_too_few_tokens_chose_hides_a_gain() {
    let (setting, detection) = &*COARSE;
    let layer = detection.experts.iter().find(|layer| layer.layer == 1).expect("it has experts");
    let unseen = layer.unseen.first().expect("it has one that few tokens chose");
    assert!(unseen.needed.is_some_and(|needed| unseen.tokens < needed), "{unseen:?}");
    let seen = (0..layer.experts).find(|expert| layer.unseen.iter().all(|unseen| unseen.expert != *expert));
    let seen = seen.expect("it has one that many tokens chose");
    let larger = |expert| {
        setting.changed(|_, weights| {
            let weight = Weight::Layer(1, LayerWeight::Expert(expert, Projection::Down));
            let values = weights.get(weight).expect("it is there").dense::<f64>() * detection.gain;
            weights.insert(weight, values.view(), Storage::F32);
        })
    };
    assert!(is_blamed(setting, &modules(&larger(seen))), "expert {seen}");
    assert!(!is_blamed(setting, &modules(&larger(unseen.expert))), "{unseen:?}");
}

/// Routers, all experts of a layer, and heads, by the weights that are larger then.
#[test]
fn a_gain_is_found_where_it_is_said_that_it_would_be_seen() {
    let (setting, detection) = &*COARSE;
    let larger = |gain: &Gain| {
        setting.changed(|config, weights| {
            let mut scale = |weight: LayerWeight, columns: Range<usize>| {
                let weight = Weight::Layer(gain.layer, weight);
                let mut values = weights.get(weight).expect("it is there").dense::<f64>();
                values.slice_mut(s![.., columns]).mapv_inplace(|value| value * detection.gain);
                weights.insert(weight, values.view(), Storage::F32);
            };
            let (hidden, intermediate, head) = (config.hidden_size, config.intermediate_size, config.head_dim);
            match gain.of {
                Of::Router => scale(LayerWeight::Gate, 0..hidden),
                Of::AllExperts => (0..config.num_local_experts)
                    .for_each(|expert| scale(LayerWeight::Expert(expert, Projection::Down), 0..intermediate)),
                Of::Head(number) => scale(LayerWeight::OProj, number * head..(number + 1) * head),
            }
        })
    };
    let of_layer: Vec<&Gain> = detection.gains.iter().filter(|gain| gain.layer == 1).collect();
    let kinds: [fn(&Of) -> bool; 3] =
        [|of| *of == Of::Router, |of| *of == Of::AllExperts, |of| matches!(of, Of::Head(_))];
    for is in kinds {
        assert!(of_layer.iter().any(|gain| gain.seen && is(&gain.of)), "{:?}", detection.gains);
    }
    for gain in of_layer {
        assert_eq!(is_blamed(setting, &modules(&larger(gain))), gain.seen, "{gain:?}");
    }
}

#[test]
fn what_is_at_fault_anyway_is_not_ruled_out() {
    let setting = setting("m2-gqa3-f32", RoundingContract::EAGER_F32, |tokens| tokens.truncate(12));
    let faulty = setting.with(&[setting.mistake("no_renorm")]);
    let detection = detected(&setting, &faulty, None);
    let of = |name: &str| {
        let known = detection.mistakes.iter().find(|known| known.name == name).expect("it is known");
        known.ways[0].outcome.clone()
    };
    assert_eq!(of("no_renorm"), Outcome::AtFault);
    assert!(matches!(of("rope_interleaved"), Outcome::RuledOut(_)));
}

#[test]
fn the_same_seed_proposes_the_same_tokens() {
    let [one, same, other] = [3, 3, 4].map(|seed| proposed("m2-gqa3-f32", Some(30), seed).tokens);
    assert_eq!(one, same);
    assert_ne!(one, other);
    assert_eq!(one.len(), 30);
}
