//! `tools/src/bench`: floors against those that are derived by hand, and each work, timed on the emulated device.

use fixtures::convert::types::Types;
use fixtures::synth::released::Released;
use optimized::emulated::Form;
use optimized::timing::{Limits, Repeats};
use reference::config::Config;
use tests::device::emulated;
use tools::bench::floor::{Floor, Rates, Unit};
use tools::bench::instructions::{Handed, differences};
use tools::bench::measuring::{Asked, measured};
use tools::bench::operators::{Chosen, Step, Work, all, chosen};
use tools::report;
use tools::session::model::configuration;

const DECODE: Step = Step { tokens: 1, context: 8192, weights: Types::Bf16 };

fn config(model: &str) -> Config {
    let released = Released::named(model).expect("it is released");
    Config::from_json(&released.config().to_string()).expect("a configuration")
}

/// The floor of one work, where tokens choose k experts and 2048 keys of each key head.
fn floor(config: &Config, name: &str, step: Step) -> Floor {
    let keys = 2048 * config.num_key_value_heads;
    let chosen = Chosen { experts: config.num_experts_per_tok, keys_read: keys, keys_attended: keys };
    let work = all(config).into_iter().find(|work| work.name(config) == name).unwrap_or_else(|| panic!("{name}"));
    work.floor(config, step, &[chosen; 2]).expect("an operator alone")
}

/// The roofline of one token after 8191 others: weights of products in bf16, twice the bytes that FP8 has.
#[test]
fn floors_of_decoding_are_those_derived_by_hand() {
    let (m2, m3) = (config("minimax-m2.7"), config("minimax-m3"));
    let expected = [
        (&m2, "experts.linear_qkv", 50.33e6, 50.3e6),
        (&m2, "experts.attention", 33.58e6, 201.3e6),
        (&m2, "experts.linear_o", 37.77e6, 37.7e6),
        (&m2, "experts.router", 3.153e6, 1.57e6),
        (&m2, "experts.moe", 226.5e6, 226.5e6),
        (&m2, "linear_head", 1.2296e9, 1.229e9),
        (&m3, "sparse.linear_qkv", 121.1e6, 121.1e6),
        (&m3, "sparse.indexer", 2.098e6, 8.39e6),
        (&m3, "sparse.block_sparse_attention", 4.227e6, 67.1e6),
        (&m3, "sparse.linear_o", 100.7e6, 100.7e6),
        (&m3, "sparse.moe", 453.0e6, 453.0e6),
        (&m3, "sparse.dense_ffn", 113.3e6, 113.2e6),
        (&m3, "dense.dense_ffn", 453.0e6, 453.0e6),
        (&m3, "dense.attention", 16.81e6, 268.4e6),
    ];
    for (config, name, bytes, operations) in expected {
        let floor = floor(config, name, DECODE);
        assert!((floor.bytes() / bytes - 1.0).abs() < 2e-3, "{name}: {} bytes", floor.bytes());
        assert!((floor.operations / operations - 1.0).abs() < 2e-3, "{name}: {} operations", floor.operations);
    }
    // 7.8 µs by bandwidth, and a prompt's attention by operations: 206.16 GFLOP, 261 µs.
    let attention = floor(&m2, "experts.attention", DECODE);
    assert!((attention.microseconds(&Rates::H200) - 7.81).abs() < 0.01);
    let prompt = floor(&m2, "experts.attention", Step { tokens: 4096, context: 4096, weights: Types::Bf16 });
    assert!(
        (prompt.operations / 206.16e9 - 1.0).abs() < 1e-3 && (prompt.microseconds(&Rates::H200) - 261.0).abs() < 0.1
    );
    let router = floor(&m2, "experts.router", Step { tokens: 64, context: 8192, weights: Types::Bf16 });
    assert!(router.unit == Unit::Scalar && (router.microseconds(&Rates::H200) - 1.68).abs() < 0.01);
}

/// As released: a byte a value, and a scale for each block.
#[test]
fn floors_of_quantized_weights_are_those_derived_by_hand() {
    let (m2, m3) = (config("minimax-m2.7"), config("minimax-m3"));
    let [fp8, mxfp8] = [Types::Fp8, Types::Mxfp8].map(|weights| Step { weights, ..DECODE });
    let expected = [
        (&m2, "experts.linear_qkv", fp8, 8192.0 * 3072.0 + 64.0 * 24.0 * 4.0 + 2.0 * (3072.0 + 8192.0)),
        (&m2, "experts.moe", fp8, 113.3e6),
        (&m2, "linear_head", fp8, 1.2296e9),
        (&m3, "sparse.moe", mxfp8, 4.0 * 3.0 * 6144.0 * 3072.0 * 33.0 / 32.0 + 2.0 * 3.0 * 6144.0 + 32.0),
    ];
    for (config, name, step, bytes) in expected {
        let floor = floor(config, name, step);
        assert!((floor.bytes() / bytes - 1.0).abs() < 1e-3, "{name}: {} bytes", floor.bytes());
    }
}

/// An H200's peak of 989 TFLOP/s in bf16 is 132·4096 operations at 1830 MHz.
#[test]
fn rates_follow_from_what_a_device_says() {
    let limits =
        Limits { multiprocessors: 132, clock: 1.83e9, bandwidth: 4.9e12, cache_bytes: 50 << 20, capability: (9, 0) };
    let rates = Rates::of(&limits, 4.3e12).expect("Hopper is known");
    assert!((rates.tensor / 0.8 / 989.4e12 - 1.0).abs() < 1e-3 && rates.bandwidth == 4.3e12);
    assert_eq!(Rates::of(&Limits { capability: (12, 0), ..limits }, 1e12), None);
}

/// Every work of both families, however weights are stored, can be captured and replayed, and is told with its time.
#[test]
fn each_work_is_timed() {
    let stored = [
        ("m2-gqa3-f32", Types::Bf16),
        ("m3-gqa4-f32", Types::Bf16),
        ("m2-gqa3-f32", Types::Fp8),
        ("m3-gqa4-f32", Types::Mxfp8),
    ];
    for (model, weights) in stored {
        let config = configuration(model).expect("it is built in");
        let asked = Asked {
            step: Step { tokens: 2, context: 40, weights },
            works: all(&config),
            timing: Some(Repeats { in_graph: 2, warm_ups: 1, replays: 3, flushed_bytes: 4096 }),
            rates: Rates::H200,
            times_reference: false,
            config,
        };
        let mut steps = 0;
        let bench = measured(emulated(Form::Fast), &asked, || steps += 1).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(steps, tools::bench::measuring::steps(&asked));
        assert!(bench.works.iter().all(|work| work.timed.is_some_and(|times| times.runs == 3)));
        let told = report::bench::bench(model, &bench, None);
        for words in ["spread", "step", "layer", "median of replays", "a step of all"] {
            assert!(told.contains(words), "{words}: {told}");
        }
    }
}

#[test]
fn works_are_chosen_by_patterns() {
    let config = config("minimax-m3");
    let named = |patterns: &[&str]| {
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        chosen(&config, &patterns).map(|works| works.into_iter().map(|work| work.name(&config)).collect::<Vec<_>>())
    };
    assert_eq!(named(&["*.moe", "sampling"]).expect("both are there"), ["sparse.moe", "sampling"]);
    assert_eq!(named(&["dense.*_ffn"]).expect("it is there"), ["dense.dense_ffn"]);
    let refused = named(&["*.moe", "moa"]).expect_err("it is not known");
    assert!(refused.to_string().contains("moa") && refused.advice().is_some_and(|list| list.contains("sparse.moe")));
    let pieces = Work::Step.pieces(&config);
    assert!(pieces.len() > 20 && pieces.iter().all(|piece| piece.pieces(&config).is_empty()));
}

/// A word that differs is told with both values.
#[test]
fn instructions_that_differ_are_told() {
    let handed = |text: &str| serde_json::from_str::<Handed>(text).expect("what is handed");
    let own = handed(r#"[["mma", [1, 2, 3]], ["votes", [4]]]"#);
    let other = handed(r#"[["mma", [1, 7, 9]], ["votes", [4]]]"#);
    let (compared, lacking) = differences(&own, &other).expect("the same instructions");
    assert_eq!((compared[0].different, compared[0].first), (2, Some((1, 2, 7))));
    assert_eq!((compared[1].different, compared[1].words, compared[1].first), (0, 1, None));
    assert_eq!(lacking, Vec::<String>::new());
    for other in
        [r#"[["mma", [1, 2, 3]]]"#, r#"[["mma", [1, 2]], ["votes", [4]]]"#, r#"[["votes", [4]], ["mma", [1, 2, 3]]]"#]
    {
        assert!(differences(&own, &handed(other)).is_err(), "{other}");
    }
    // What this device lacks is told, and nothing of it compared.
    let (compared, lacking) = differences(&handed(r#"[["votes", [4]]]"#), &own).expect("one of them");
    assert_eq!((compared.len(), lacking), (1, vec!["mma".to_owned()]));
}
