//! What holds of every model's numbers.

use fixtures::synth::Synthesis;
use proptest::prelude::*;
use reference::config::{Attention, Config, FeedForward, Index, Layer};
use tests::memory::{tiny, tiny_m3};
use tools::claims::flops::Work;
use tools::claims::hyperparameters::Hyperparameters;
use tools::claims::memory::{BF16, FP8};
use tools::claims::parameters::Part;
use tools::claims::sizing::Sizing;

/// Models of either family: any sizes, any kind of layer after any other.
fn config() -> impl Strategy<Value = Config> {
    let kind = (any::<bool>(), any::<bool>()).prop_map(|(sparse, dense)| Layer {
        attention: if sparse { Attention::BlockSparse } else { Attention::Full },
        feed_forward: if dense { FeedForward::Dense } else { FeedForward::Experts },
    });
    let sizes = (1..50_usize, 1..40_usize, 1..30_usize, 1..4_usize, 1..3_usize, 1..9_usize);
    let experts = (1..9_usize).prop_flat_map(|experts| (Just(experts), 1..=experts));
    let layers = prop::collection::vec(kind, 1..5);
    (any::<bool>(), any::<bool>(), sizes, experts, layers, (1..5_usize, 1..6_usize)).prop_map(
        |(is_m3, tied, (v, h, i, group, kv_heads, head_dim), (experts, chosen), layers, (top_k, size))| {
            let base = if is_m3 { tiny_m3() } else { tiny() };
            let index = base.index.map(|index| Index {
                heads: kv_heads,
                choices: kv_heads,
                head_dim,
                blocks: reference::config::Blocks { top_k, size, ..index.blocks },
            });
            Config {
                vocab_size: v,
                hidden_size: h,
                intermediate_size: i,
                num_hidden_layers: layers.len(),
                num_attention_heads: group * kv_heads,
                num_key_value_heads: kv_heads,
                head_dim,
                num_local_experts: experts,
                num_experts_per_tok: chosen,
                tie_word_embeddings: tied,
                layers: if is_m3 { layers } else { Vec::new() },
                index,
                ..base
            }
        },
    )
}

/// As close as sums in another order come.
fn assert_near(a: f64, b: f64) -> Result<(), TestCaseError> {
    prop_assert!((a - b).abs() <= 64.0 * f64::EPSILON * a.abs().max(b.abs()), "{a} {b}");
    Ok(())
}

proptest! {
    #[test]
    fn parts_are_the_whole_of_the_checkpoint_s_tensors(config in config()) {
        let model = Hyperparameters::of(config.clone());
        prop_assert_eq!(Part::all().map(|part| model.part(part)).sum::<usize>(), model.total());
        prop_assert_eq!(model.total() as u128, Synthesis::default().parameters(&config));
        let all: Vec<Part> = Part::all().collect();
        prop_assert_eq!(model.parts(&all), model.total());
    }

    #[test]
    fn no_more_is_active_than_there_is(config in config()) {
        let model = Hyperparameters::of(config.clone());
        for part in Part::all() {
            prop_assert!(model.active_part(part) <= model.part(part), "{}", part);
        }
        prop_assert!(model.active_in_layers() <= model.active() && model.active() <= model.total());
        let all = Hyperparameters::of(Config { num_experts_per_tok: config.num_local_experts, ..config });
        prop_assert_eq!(all.active_part(Part::RoutedExperts), all.part(Part::RoutedExperts));
        prop_assert_eq!(all.active_in_layers(), all.total() - all.parts(&[Part::Embedding, Part::LmHead]));
    }

    #[test]
    fn the_cache_is_linear_in_tokens_and_bytes(config in config(), a in 0..10_000_u32, b in 0..10_000_u32) {
        let model = Hyperparameters::of(config);
        let cache = |tokens: u32| model.cache(f64::from(tokens), BF16);
        prop_assert_eq!(cache(a) + cache(b), cache(a + b));
        prop_assert_eq!(cache(a), f64::from(a) * model.cache_of_token(BF16));
        prop_assert_eq!(cache(a), 2.0 * model.cache(f64::from(a), FP8));
    }

    /// Where each key that is attended to is counted once for each token.
    #[test]
    fn a_prompt_is_its_tokens_decoded_one_by_one(config in config(), tokens in 1..60_u32) {
        let model = Hyperparameters::of(config);
        let length = f64::from(tokens);
        for work in Work::all().filter(|work| *work != Work::LmHead) {
            let one_by_one: f64 = (1..=tokens).map(|token| model.decode(work, f64::from(token))).sum();
            assert_near(length * model.prefill(work, length), one_by_one)?;
        }
        assert_near(length * model.prefill(Work::LmHead, length), model.decode(Work::LmHead, length))?;
    }

    #[test]
    fn attention_to_blocks_costs_no_more_than_to_all_keys(config in config(), tokens in 1..60_u32) {
        let model = Hyperparameters::of(config);
        let keys = f64::from(tokens);
        prop_assert!(model.sparse_core(keys) - model.index_scores(keys) <= model.core(keys));
        prop_assert!(model.decode_total(keys) <= model.decode_total(keys + 1.0));
        prop_assert_eq!(model.core(2.0 * keys), 2.0 * model.core(keys));
    }

    /// Two operations for each parameter that a token is computed with, but for norms, biases and the embedding's row.
    #[test]
    fn products_are_twice_the_active_matrices(config in config()) {
        let model = Hyperparameters::of(config.clone());
        let none = [Work::FullAttention, Work::SparseAttention, Work::IndexScores, Work::LmHead];
        let products: f64 = Work::all().filter(|work| !none.contains(work)).map(|work| model.decode(work, 1.0)).sum();
        let [expert_layers, _] = model.feed_forward_layers();
        let vectors = model.count(reference::weights::Weight::is_norm) + expert_layers * config.num_local_experts;
        prop_assert_eq!(products, 2.0 * (model.active_in_layers() - vectors) as f64);
    }

    #[test]
    fn the_table_has_all_of_it(config in config(), context in 1..1000_usize) {
        let model = Hyperparameters::of(config);
        let sizing = Sizing::of(&model, context);
        prop_assert_eq!(sizing.parameters.iter().map(|size| size.total).sum::<usize>(), model.total());
        prop_assert_eq!(sizing.parameters.iter().map(|size| size.active).sum::<usize>(), sizing.active_parameters);
        assert_near(sizing.operations.iter().map(|size| size.operations.decode).sum(), sizing.total_operations.decode)?;
        assert_near(sizing.operations.iter().map(|size| size.operations.prefill).sum(), sizing.total_operations.prefill)?;
        assert_near(sizing.cache.bf16, (sizing.cache.of_token + sizing.cache.index_of_token) * context as f64)?;
    }
}
