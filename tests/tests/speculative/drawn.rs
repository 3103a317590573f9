//! Drafts of modules, drawn: texts have the distribution that the model gives them.

use super::*;
use reference::ops::sampling::Random;
use reference::speculative::mtp::MtpDrafter;

const WARM: Random = Random { temperature: 1.5, top_k: None, top_p: 1.0 };

/// What χ² of so many degrees of freedom exceeds with a chance of 10⁻⁴ (tables: 23.51 of 4, 44.26 of 15).
pub(super) fn far_out(freedom: usize) -> f64 {
    match freedom {
        4 => 23.51,
        15 => 44.26,
        _ => panic!("no table for {freedom} degrees of freedom"),
    }
}

/// χ² of counts; what cannot be has not been.
pub(super) fn chi_square(counts: &[u32], probabilities: &[f64]) -> f64 {
    let total = f64::from(counts.iter().sum::<u32>());
    let terms = counts.iter().zip(probabilities).map(|(count, p)| {
        assert!(*p > 0.0 || *count == 0, "an impossible token");
        let expected = total * p;
        if *p > 0.0 { (f64::from(*count) - expected).powi(2) / expected } else { 0.0 }
    });
    terms.sum()
}

/// Four tokens and one layer.
fn smallest() -> Config {
    Config { vocab_size: 4, num_hidden_layers: 1, num_local_experts: 2, num_experts_per_tok: 1, ..small() }
}

/// The chance of each text of two tokens after the prompt: that of the first, times that of the second after it.
fn chances(model: &Decoder<'_>) -> Vec<f64> {
    let of = |text: &[u32]| {
        let mut unseen = NoProbe;
        let mut run = Run::new(RoundingContract::IDEAL, &mut unseen);
        let logits = model.forward(text, &mut KvCache::<f64>::new(1), &mut run).expect("it runs").value;
        WARM.probabilities(logits.row(text.len() - 1)).expect("numbers")
    };
    let prompt = PROMPT.map(|token| token % 4);
    let pair = |text: &[u32]| -> Vec<f64> {
        let first = of(text);
        (0..4)
            .flat_map(|token: u32| {
                let p = first[token as usize];
                of(&[text, &[token]].concat()).into_iter().map(move |q| p * q)
            })
            .collect()
    };
    // The token before is drawn, too: it is summed over.
    let mut all = vec![0.0; 16];
    for (token, p) in of(&prompt).into_iter().enumerate() {
        let text = [&prompt[..], &[u32::try_from(token).expect("small")]].concat();
        all.iter_mut().zip(pair(&text)).for_each(|(all, q)| *all += p * q);
    }
    all
}

/// The second and the third token, which drafts were made for.
#[test]
fn texts_have_the_distribution_that_the_model_gives_them() {
    let config = smallest();
    let weights = Synthesis { seed: 5, modules: 3, ..Synthesis::default() }.weights(&config);
    let model = model(&config, &weights);
    let prompt = PROMPT.map(|token| token % 4);
    let (mut counts, mut shares) = (vec![0_u32; 16], [0_usize; 2]);
    for seed in 0..2500 {
        let mut drafter = MtpDrafter::<f64>::new(&model, 2, RoundingContract::IDEAL).expect("modules");
        let p = Speculation { tokens: 4, drafts: 2, sampling: Sampling::Random(WARM), seed, slip: None };
        let mut cache = KvCache::new(1);
        let mut unseen = NoProbe;
        let mut run = Run::new(RoundingContract::IDEAL, &mut unseen);
        let mut reference = Reference { model: &model, cache: &mut cache, run: &mut run };
        let made = speculate(&mut reference, &prompt, &p, &mut drafter, |_| ());
        let (choices, acceptance) = made.expect("it runs");
        let text = tokens(&choices);
        counts[(text[1] * 4 + text[2]) as usize] += 1;
        shares[0] += acceptance.drafted.iter().sum::<usize>();
        shares[1] += acceptance.accepted.iter().sum::<usize>();
    }
    let found = chi_square(&counts, &chances(&model));
    assert!(found < far_out(15), "{found}: {counts:?}");
    assert!(shares[1] * 5 > shares[0] && shares[1] < shares[0], "{shares:?}");
}
