//! What engines are known to slip on is seen.

use super::*;

/// Of how many patterns of right and wrong drafts the tokens, or margins alone, are others, and of how many the cache has another
/// length.
fn seen(config: &Config, slip: Slip) -> [usize; 3] {
    let weights = weights(config, 3);
    let model = model(config, &weights);
    let (want, cache) = plain(&model, GREEDY.tokens);
    let mut seen = [0; 3];
    for bits in 0..1_u32 << 6 {
        let right: Vec<bool> = (0..6).map(|place| bits >> place & 1 == 1).collect();
        let mut drafter = Forced::new(&want, &right, config.vocab_size);
        let (choices, _, own) = made(&model, &with(slip), &mut drafter).expect("it runs");
        seen[0] += usize::from(tokens(&choices)[..13] != tokens(&want));
        seen[1] += usize::from(choices[..13] != want);
        seen[2] += usize::from(own.len(1) != cache.len(1));
    }
    seen
}

#[test]
fn drafts_that_are_accepted_behind_a_mismatch_make_another_text() {
    for config in [small(), small_m3()] {
        let [others, ..] = seen(&config, Slip::AcceptAfterMismatch);
        assert!(others > 32, "{others} of 64");
    }
}

/// All but the pattern of right drafts alone leave rows that are none of the text's, and every token behind attends to them.
#[test]
fn rejected_drafts_that_stay_in_the_caches_change_what_follows() {
    for config in [small(), small_m3()] {
        let [_, others, longer] = seen(&config, Slip::KvNotRolledBack);
        assert!(others > 32, "{others} of 64");
        assert_eq!(longer, 63);
    }
}

/// The text is the same, in more rounds.
#[test]
fn a_bonus_that_is_missing_costs_rounds() {
    let config = small();
    let weights = weights(&config, 3);
    let model = model(&config, &weights);
    let (want, _) = plain(&model, 13);
    let rounds = |p: &Speculation| {
        let mut drafter = Forced::new(&want, &[true], config.vocab_size);
        let (choices, acceptance, _) = made(&model, p, &mut drafter).expect("it runs");
        assert_eq!(tokens(&choices), tokens(&want));
        acceptance.rounds
    };
    assert_eq!([rounds(&GREEDY), rounds(&with(Slip::BonusMissing))], [3, 4]);
}
