//! Experts that a candidate does not show. `tools/src/judge/recover.rs`: in the last layer, of which it shows what the final norm
//! makes: `output_hidden_states` of transformers. `tools/src/judge/doubt.rs`: in a layer of which it shows nothing behind them.

use fixtures::checkpoint::held::HeldWeights;
use ndarray::Array2;
use reference::models::decoder::Decoder;
use reference::rounding::GateRound;
use reference::{LayerSite, RoundingContract, Site};
use tests::mistaken::Setting;
use tests::seen::Seen;
use tools::judge::candidate::Candidate;
use tools::judge::lens::Lens;
use tools::judge::verdict::{SiteReport, Verdict};
use tools::judge::verification::Verification;

/// Prompts that are tried.
const PROMPTS: u32 = 60;

/// Prompts of which another choice than the reference's has to come up.
const FEW: usize = 3;

fn verify(setting: &Setting, candidate: &dyn Candidate, lenses: &[Lens]) -> Vec<SiteReport> {
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    let held = HeldWeights::under(&setting.contract, checkpoint.config().norm_weight, &checkpoint);
    let model = Decoder::new(checkpoint.config(), setting.semantics(), &held).expect("it fits");
    let steps = std::slice::from_ref(&setting.case.tokens);
    let verification = Verification {
        model: &model,
        candidate,
        contract: setting.contract,
        steps,
        prompt: steps[0].len(),
        lenses,
        layers: 0..checkpoint.config().num_hidden_layers,
        keep: None,
    };
    verification.without_twin().expect("it can be put next to the reference").sites
}

/// Tokens of a prompt.
fn tokens(setting: &Setting, prompt: u32) -> Vec<u32> {
    let length = u32::try_from(setting.case.tokens.len()).expect("a short prompt");
    (0..length).map(|i| (i * i * 7 + i * 31 * (prompt + 1) + prompt) % 500).collect()
}

/// A right implementation that chose another expert of nearly the same score there is not blamed for what that makes.
#[test]
fn the_last_layer_s_experts_are_told_by_the_final_norm() {
    let mut setting = Setting::of("m2-sharded-bf16", RoundingContract::EAGER_BF16);
    let last = setting.case.checkpoint().expect("it is whole").config().num_hidden_layers - 1;
    let chosen = Site::Layer(last, LayerSite::GateExperts);
    let is_state = |site: Site| match site {
        Site::Layer(layer, LayerSite::Output) => layer < last,
        site => matches!(site, Site::Embedding | Site::FinalNorm | Site::Logits),
    };
    let mut others = 0;
    for prompt in 0..PROMPTS {
        setting.case.tokens = tokens(&setting, prompt);
        let live = setting.with(&[]);
        let seen = |shows: &(dyn Fn(Site) -> bool + Sync), lenses: &[Lens]| {
            verify(&setting, &Seen { live: &live, shows, value: |_: Site, value| value }, lenses)
        };
        let with_choice = seen(&|site| is_state(site) || site == chosen, &[Lens::Local]);
        let choice = with_choice.into_iter().find(|report| report.site == chosen);
        if choice.expect("it is shown").verdict != Verdict::Tie {
            continue;
        }
        others += 1;
        let blamed: Vec<SiteReport> =
            seen(&is_state, &Lens::ALL).into_iter().filter(|report| report.verdict == Verdict::Fault).collect();
        assert_eq!(blamed, Vec::<SiteReport>::new(), "prompt {prompt}");
    }
    assert!(others >= FEW, "{others} prompts have another choice, expected {FEW}");
}

/// Nor is one for what the next layer makes of it, of which hooks on attention and the norm behind it show no stream: the router's
/// logits are rounded, and two experts' are often the same then.
#[test]
fn what_the_next_layer_makes_of_open_choices_is_in_doubt() {
    let contract = RoundingContract { gate: GateRound::Activations, ..RoundingContract::EAGER_BF16 };
    let mut setting = Setting::of("m3-sharded-bf16", contract);
    let is_shown = |site: Site| match site {
        Site::Layer(_, site) => matches!(site, LayerSite::Attention | LayerSite::PostAttentionNorm),
        site => site == Site::Logits,
    };
    let behind = Site::Layer(2, LayerSite::PostAttentionNorm);
    let mut open = 0;
    for prompt in 0..PROMPTS {
        setting.case.tokens = tokens(&setting, prompt);
        let live = setting.with(&[]);
        let seen = |factor: f64| {
            let value = |site: Site, value: Array2<f64>| if site == behind { factor * value } else { value };
            verify(&setting, &Seen { live: &live, shows: is_shown, value }, &[Lens::Local])
        };
        let reports = seen(1.0);
        let blamed: Vec<&SiteReport> = reports.iter().filter(|report| report.verdict == Verdict::Fault).collect();
        assert_eq!(blamed, Vec::<&SiteReport>::new(), "prompt {prompt}");
        let is_open = |report: &&SiteReport| report.note.as_ref().is_some_and(|note| note.contains("rounding decides"));
        let Some(report) = reports.iter().find(is_open) else { continue };
        assert_eq!(report.verdict, Verdict::Inconclusive);
        open += 1;
        // What is wrong in all rows is so in those that are in no doubt.
        let wrong = seen(1.5);
        let is_fault = |report: &SiteReport| report.site == behind && report.verdict == Verdict::Fault;
        assert!(wrong.iter().any(is_fault), "prompt {prompt}: {wrong:#?}");
    }
    assert!(open > 0, "no prompt leaves anything open");
}
