//! The CUDA path on the emulated device next to its exact twin, where sums have several chunks and groups of keys: every value
//! is the twin's, and those of another order or arithmetic are not.

use fixtures::checkpoint::held::HeldWeights;
use optimized::emulated::Form;
use optimized::models::decoder::Decoder as Optimized;
use reference::accumulator::{Accumulator, TensorCore};
use reference::config::Config;
use reference::models::decoder::Decoder;
use reference::{LayerSite, RoundingContract, Semantics, Site};
use serde_json::json;
use tests::device::emulated;
use tools::judge::candidate::Live;
use tools::judge::exact::Exactness;
use tools::judge::lens::Lens;
use tools::judge::verification::Verification;

use crate::invariance::{prompt, weights};

/// More than one chunk of 512 wide, and of a prompt of more than one group of 256 keys.
const WIDTH: usize = 600;
const PROMPT: usize = 300;

/// A model of one layer.
fn config() -> Config {
    let json = json!({
        "model_type": "minimax_m2", "vocab_size": 40, "hidden_size": WIDTH, "intermediate_size": 40,
        "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "rotary_dim": 8,
        "rope_theta": 5e6, "rms_norm_eps": 1e-6, "num_local_experts": 4, "num_experts_per_tok": 2,
        "max_position_embeddings": 512, "tie_word_embeddings": false
    });
    Config::from_json(&json.to_string()).expect("the configuration is whole")
}

/// How the CUDA path stands to the twin under each contract.
fn exactness(contracts: &[RoundingContract]) -> Vec<Exactness> {
    let (config, tokens) = (config(), prompt(PROMPT, 40, 0));
    let weights = weights(&config);
    let model = Optimized::load(emulated(Form::Fast), &config, &Semantics::RELEASED, &weights, || ()).expect("it fits");
    let (mut live, mut cache) = (Live::default(), model.cache(PROMPT).expect("it fits"));
    let (first, last) = tokens.split_at(PROMPT - 1);
    for part in [first, last] {
        model.forward(part, &[], &mut cache, Some(&mut live)).expect("it runs");
    }
    let held = HeldWeights::under(&RoundingContract::PARITY, config.norm_weight, &weights);
    let reference = Decoder::new(&config, Semantics::RELEASED, &held).expect("it fits");
    let verification = |&contract: &RoundingContract| Verification {
        model: &reference,
        candidate: &live,
        contract,
        steps: std::slice::from_ref(&tokens),
        prompt: PROMPT,
        lenses: &[Lens::Local],
        layers: 0..1,
        keep: None,
    };
    let of =
        |contract| verification(contract).exactness(true, || ()).expect("it can be read").expect("the order is fixed");
    contracts.iter().map(of).collect()
}

#[test]
fn its_own_order_gives_every_bit_and_no_other_does() {
    let Accumulator::TensorCore(core) = RoundingContract::PARITY.accumulator else { panic!("a tensor core's") };
    let other = |core| RoundingContract { accumulator: Accumulator::TensorCore(core), ..RoundingContract::PARITY };
    let found = exactness(&[
        RoundingContract::PARITY,
        other(TensorCore { promote: Some(1 << 20), ..core }),
        other(TensorCore { k: 8, ..core }),
        other(TensorCore { fraction: 23, ..core }),
    ]);
    let at = |exact: &Exactness| exact.differing().map(|bits| bits.site).collect::<Vec<Site>>();
    assert!(at(&found[0]).is_empty(), "{:?}", found[0].differing().collect::<Vec<_>>());
    assert!(!found[0].is_fault() && found[0].sites.len() > 20);
    // Promotion is dropped: only products over more than 512 have another sum.
    let wide = |site: &Site| match site {
        Site::Layer(_, site) => matches!(
            site,
            LayerSite::QProj
                | LayerSite::KProj
                | LayerSite::VProj
                | LayerSite::QRope
                | LayerSite::KRope
                | LayerSite::ExpertHidden
        ),
        site => matches!(site, Site::LmHead | Site::Logits),
    };
    let unpromoted = at(&found[1]);
    assert!(!unpromoted.is_empty() && unpromoted.iter().all(wide), "{unpromoted:?}");
    for other in &found[2..] {
        assert!(other.is_fault(), "another step, or another fraction");
    }
}
