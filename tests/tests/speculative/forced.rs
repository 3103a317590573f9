//! Every pattern of right and wrong drafts.

use super::*;
use reference::speculative::Acceptance;
use tests::probes::GivenTable;

/// What each layer keeps: keys, values, and the index branch's keys.
fn kept(cache: &KvCache<f64>) -> Vec<ndarray::Array2<f64>> {
    let layers = 0..cache.layers();
    let all = layers.flat_map(|layer| {
        let (keys, values) = cache.layer(layer).expect("it keeps something");
        [Some(keys.value.clone()), Some(values.value.clone()), cache.index(layer).map(|index| index.value.clone())]
    });
    all.flatten().collect()
}

fn pattern(bits: u32, length: u32) -> Vec<bool> {
    (0..length).map(|place| bits >> place & 1 == 1).collect()
}

/// Up to four rows are multiplied one by one: tokens, margins and caches are the same bitwise.
#[test]
fn up_to_three_drafts_change_nothing_bitwise() {
    for config in [small(), small_m3()] {
        let weights = weights(&config, 3);
        let model = model(&config, &weights);
        let (want, cache) = plain(&model, GREEDY.tokens);
        for drafts in [1, 3] {
            for bits in 0..1 << 6 {
                let right = pattern(bits, 6);
                let mut drafter = Forced::new(&want, &right, config.vocab_size);
                let p = Speculation { drafts, ..GREEDY };
                let (choices, _, own) = made(&model, &p, &mut drafter).expect("it runs");
                assert_eq!(choices, want, "{drafts} drafts, {right:?}");
                assert_eq!(kept(&own), kept(&cache), "{drafts} drafts, {right:?}");
            }
        }
    }
}

/// Of eight rows, sums may be in another order: each within its bound.
#[test]
fn seven_drafts_change_what_rounding_does_alone() {
    for config in [small(), small_m3()] {
        let weights = weights(&config, 4);
        let model = model(&config, &weights);
        let (want, _) = plain(&model, 17);
        let bounded = |drafter: &mut dyn Drafter<Pass<f64>>| {
            let mut cache = KvCache::new(config.num_hidden_layers);
            let mut probe = GivenTable;
            let mut run = Run::bounding(RoundingContract::IDEAL, &mut probe);
            let p = Speculation { tokens: 17, drafts: 7, ..GREEDY };
            let mut reference = Reference { model: &model, cache: &mut cache, run: &mut run };
            let (choices, _) = speculate(&mut reference, &PROMPT, &p, drafter, |_| ()).expect("it runs");
            (tokens(&choices), cache)
        };
        let (_, one) = bounded(&mut Nothing);
        for bits in (0..1 << 7).step_by(9) {
            let right = pattern(bits, 7);
            let (found, other) = bounded(&mut Forced::new(&want, &right, config.vocab_size));
            assert_eq!(found, tokens(&want), "{right:?}");
            for layer in 0..config.num_hidden_layers {
                let of = |cache: &KvCache<f64>| {
                    let (keys, values) = cache.layer(layer).expect("it keeps something").clone();
                    [Some(keys), Some(values), cache.index(layer).cloned()]
                };
                for (a, b) in of(&one).into_iter().flatten().zip(of(&other).into_iter().flatten()) {
                    let limit = a.error_or_exact().certain + b.error_or_exact().certain;
                    let off = (&a.value - &b.value).mapv(f64::abs);
                    assert!(off.iter().zip(&limit).all(|(off, limit)| off <= limit), "layer {layer}, {right:?}");
                }
            }
        }
    }
}

/// Rounds of three, of which the second draft is wrong: one is accepted of each.
#[test]
fn what_is_counted() {
    let config = small();
    let weights = weights(&config, 3);
    let model = model(&config, &weights);
    let (want, _) = plain(&model, 13);
    let counted = |right: &[bool]| {
        let mut drafter = Forced::new(&want, right, config.vocab_size);
        made(&model, &GREEDY, &mut drafter).expect("it runs").1
    };
    // After the first token, twelve come in pairs; before the last pair there is room for one draft.
    let half = Acceptance { rounds: 6, drafted: vec![6, 5, 5], accepted: vec![6, 0, 0] };
    assert_eq!(counted(&[true, false, true]), half);
    assert_eq!(half.share(), Some(6.0 / 16.0));
    assert_eq!(counted(&[true]), Acceptance { rounds: 3, drafted: vec![3; 3], accepted: vec![3; 3] });
    let none = counted(&[false]);
    assert_eq!(none.share(), Some(0.0));
    assert_eq!((none.rounds, none.accepted), (11, vec![0; 3]));
}
