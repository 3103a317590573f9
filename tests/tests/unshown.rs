//! `tools/src/judge/recover.rs`: experts that a candidate does not show, in the last layer, of which it shows what the final norm
//! makes: `output_hidden_states` of transformers.

use fixtures::checkpoint::held::HeldWeights;
use reference::models::decoder::Decoder;
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
        let length = u32::try_from(setting.case.tokens.len()).expect("a short prompt");
        setting.case.tokens = (0..length).map(|i| (i * i * 7 + i * 31 * (prompt + 1) + prompt) % 500).collect();
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
