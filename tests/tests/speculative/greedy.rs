//! Drafts of modules, greedily: on a hundred models of each family, the tokens of plain decoding.

use super::*;
use reference::semantics::MtpTopology;
use reference::speculative::mtp::MtpDrafter;
use tests::probes::GivenTable;

/// The largest error of a logit of the last of a text's tokens, where sums may be in any order.
fn bound(model: &Decoder<'_>, text: &[u32]) -> f64 {
    let mut probe = GivenTable;
    let mut run = Run::bounding(RoundingContract::IDEAL, &mut probe);
    let logits = model.forward(text, &mut KvCache::<f64>::new(2), &mut run).expect("it runs");
    let last = logits.select(&[text.len() - 1]);
    last.error_or_exact().certain.iter().copied().fold(0.0, f64::max)
}

/// A token may be another where the margin is within twice the bound of two logits; the texts are then compared up to there.
fn assert_equal(model: &Decoder<'_>, found: &[Choice], want: &[Choice], what: &str) {
    let differs = found.iter().zip(want).position(|(found, want)| found.token != want.token);
    if let Some(position) = differs {
        let text = [&PROMPT[..], &tokens(&want[..position])].concat();
        assert!(want[position].margin <= 4.0 * bound(model, &text), "{what}: token {position}");
    }
    assert_eq!(found.len(), want.len(), "{what}");
}

/// With the modules of a synthetic model of that seed: what was made, equal to what plain decoding makes.
fn acceptance(config: &Config, (topology, drafts): (MtpTopology, usize), seed: u64) -> Acceptance {
    let weights = Synthesis { seed, modules: drafts, ..Synthesis::default() }.weights(config);
    let semantics = Semantics { mtp_topology: Some(topology), ..Semantics::RELEASED };
    let model = Decoder::new(config, semantics, &weights).expect("it fits");
    let (want, _) = plain(&model, 13);
    let mut drafter = MtpDrafter::new(&model, drafts, RoundingContract::IDEAL).expect("modules");
    let (found, acceptance, _) = made(&model, &Speculation { drafts, ..GREEDY }, &mut drafter).expect("it runs");
    assert_equal(&model, &found, &want, &format!("{topology}, seed {seed}"));
    acceptance
}

/// The share of the drafts that models of these seeds accept.
fn share(config: &Config, how: (MtpTopology, usize), seeds: u64) -> f64 {
    let (mut drafted, mut accepted) = (0, 0);
    for found in (0..seeds).map(|seed| acceptance(config, how, seed)) {
        drafted += found.drafted.iter().sum::<usize>();
        accepted += found.accepted.iter().sum::<usize>();
    }
    accepted as f64 / drafted as f64
}

#[test]
fn a_hundred_models_of_each_family_say_with_drafts_what_they_say_without() {
    for (config, topology, drafts, seeds) in [
        (small(), MtpTopology::Doc000, 3, 100),
        (small_m3(), MtpTopology::VllmM3, 7, 100),
        (small_m3(), MtpTopology::HfGeneric, 3, 25),
    ] {
        // Of drafts that are right and drafts that are wrong there are many.
        let share = share(&config, (topology, drafts), seeds);
        assert!((0.2..0.8).contains(&share), "{topology}: {share}");
    }
}

#[test]
fn synthetic_modules_are_right_about_half_of_the_time() {
    for (config, topology) in [(small(), MtpTopology::Doc000), (small_m3(), MtpTopology::VllmM3)] {
        let share = share(&config, (topology, 3), 30);
        assert!((0.3..0.8).contains(&share), "{topology}: {share}");
    }
}
