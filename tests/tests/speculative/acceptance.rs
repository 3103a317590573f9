//! `reference/src/speculative/acceptance.rs`: by hand, and the law of what is drawn.

use ndarray::{Array2, array};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use reference::ops::sampling::{Random, Sampling, draw};
use reference::speculative::acceptance::{Slip, accept};
use reference::speculative::drafter::Draft;

use super::drawn::{chi_square, far_out};

const WARM: Random = Random { temperature: 1.0, top_k: None, top_p: 1.0 };

fn certain(tokens: &[u32]) -> Vec<Draft> {
    tokens.iter().map(|token| Draft { token: *token, probabilities: None }).collect()
}

fn greedy(z: &Array2<f64>, drafts: &[u32]) -> (Vec<u32>, usize) {
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let round = accept(None, z.view(), &certain(drafts), &Sampling::Greedy, &mut rng).expect("it fits");
    (round.choices.iter().map(|choice| choice.token).collect(), round.accepted)
}

/// Largest logits 2, 0, 1 and 0.
#[test]
fn greedily_by_hand() {
    let z = array![[0.0, 1.0, 3.0], [2.0, 1.0, 0.0], [0.0, 1.0, 0.5], [4.0, 0.0, 0.0]];
    assert_eq!(greedy(&z, &[2, 0, 1]), (vec![2, 0, 1, 0], 3));
    assert_eq!(greedy(&z, &[2, 0, 0]), (vec![2, 0, 1], 2));
    assert_eq!(greedy(&z, &[2, 1, 1]), (vec![2, 0], 1));
    assert_eq!(greedy(&z, &[1, 0, 1]), (vec![2], 0));
    assert_eq!(greedy(&z.slice(ndarray::s![..1, ..]).to_owned(), &[]), (vec![2], 0));
    let round = accept(None, z.view(), &certain(&[2, 0, 1]), &Sampling::Greedy, &mut ChaCha8Rng::seed_from_u64(0));
    let margins: Vec<f64> = round.expect("it fits").choices.iter().map(|choice| choice.margin).collect();
    assert_eq!(margins, [2.0, 1.0, 0.5, 4.0]);
}

#[test]
fn c1_to_c3() {
    let z = array![[0.0, 1.0], [2.0, 1.0]];
    let refused = |drafts: &[Draft]| {
        let mut rng = ChaCha8Rng::seed_from_u64(0);
        accept(None, z.view(), drafts, &Sampling::Random(WARM), &mut rng).expect_err("refused").to_string()
    };
    assert_eq!(refused(&[]), "acceptance C1: rows of z = 2, expected 1");
    assert_eq!(refused(&certain(&[2])), "acceptance C2: draft = 2, expected below v = 2");
    let short = Draft { token: 0, probabilities: Some(vec![1.0]) };
    assert_eq!(refused(&[short]), "acceptance C3: len(Q) = 1, expected v = 2");
}

/// A draft of Q = 0, or of P = 0, is never accepted, one of Q ≤ P always.
#[test]
fn drafts_that_are_always_or_never_accepted() {
    let z = array![[0.0, 0.0, f64::NEG_INFINITY], [0.0, 0.0, 0.0]];
    for (token, q, accepted) in [
        (0, vec![0.5, 0.5, 0.0], 1),
        (1, vec![1.0, 0.0, 0.0], 0),
        (2, vec![0.0, 0.0, 1.0], 0),
        (1, vec![0.6, 0.4, 0.0], 1),
    ] {
        for seed in 0..200 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let draft = [Draft { token, probabilities: Some(q.clone()) }];
            let round = accept(None, z.view(), &draft, &Sampling::Random(WARM), &mut rng).expect("it fits");
            assert_eq!((round.accepted, round.choices.len()), (accepted, accepted + 1), "{token} of {q:?}");
            assert!(round.choices[0].token != 2);
        }
    }
}

/// Two rows of logits, and what drafts are drawn by.
fn rows() -> (Array2<f64>, [Vec<f64>; 2]) {
    let z = array![[0.3, -0.8, 1.1, 0.0, -2.0], [-0.5, 0.9, 0.2, 0.4, -1.0], [1.0, 0.0, -0.4, 0.7, 0.1]];
    (z, [vec![0.1, 0.5, 0.2, 0.15, 0.05], vec![0.4, 0.05, 0.05, 0.3, 0.2]])
}

/// χ² of the first token, of the second where there is one, and of the third, against P.
fn of_rounds(slip: Option<Slip>, have_q: bool, random: Random) -> [f64; 3] {
    let (z, q) = rows();
    let mut counts = vec![vec![0_u32; 5]; 3];
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    for _ in 0..40_000 {
        let drafts: Vec<Draft> =
            q.iter().map(|q| Draft { token: draw(q, &mut rng), probabilities: have_q.then(|| q.clone()) }).collect();
        let round = accept(slip, z.view(), &drafts, &Sampling::Random(random), &mut rng).expect("it fits");
        for (place, choice) in round.choices.iter().enumerate() {
            counts[place][choice.token as usize] += 1;
        }
    }
    [0, 1, 2].map(|place| chi_square(&counts[place], &random.probabilities(z.row(place)).expect("numbers")))
}

/// Whatever drafts are drawn by, and whether that is said, each token has the distribution of its row.
#[test]
fn each_token_has_the_models_distribution() {
    for have_q in [true, false] {
        for random in [WARM, Random { temperature: 0.6, top_k: Some(4), top_p: 0.97 }] {
            let found = of_rounds(None, have_q, random);
            assert!(found.iter().all(|found| *found < far_out(4)), "{have_q}, {random:?}: {found:?}");
        }
    }
}

/// Drawn from P in place of what is left of it.
#[test]
fn a_replacement_that_is_not_adjusted_is_seen() {
    for have_q in [true, false] {
        let found = of_rounds(Some(Slip::NoRecoveredAdjust), have_q, WARM);
        assert!(found[0] > 10.0 * far_out(4), "{have_q}: {found:?}");
    }
}
