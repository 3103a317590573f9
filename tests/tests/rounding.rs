//! `reference/src/rounding.rs`.

mod quantized;

use proptest::prelude::*;
use reference::accumulator::Accumulator;
use reference::rounding::{AttentionRound, Chain, RmsRound};
use reference::storage::{Mode, Tf32};
use reference::{Real, Rounding, RoundingContract, Storage};
use tests::strategy::contract;
use tests::torch::{exp_u20, fexp_u20};

proptest! {
    #[test]
    fn what_is_printed_parses(contract in contract()) {
        prop_assert_eq!(contract.to_string().parse(), Ok(contract.0));
    }

    #[test]
    fn overrides_are_the_fields(contract in contract()) {
        let all: Vec<String> = contract.fields().iter().map(|(name, value)| format!("{name}={value}")).collect();
        for (preset, _) in RoundingContract::PRESETS {
            prop_assert_eq!(format!("{preset},{}", all.join(",")).parse(), Ok(contract.0));
        }
        for (i, one) in all.iter().enumerate() {
            let changed: RoundingContract = format!("ideal,{one}").parse().expect("a field");
            for (j, (own, preset)) in changed.fields().iter().zip(RoundingContract::IDEAL.fields()).enumerate() {
                prop_assert_eq!(own == &preset, i != j || contract.fields()[i] == preset);
            }
        }
    }

    /// A stochastic contract differs in how it rounds alone, and prints as what it is a variant of.
    #[test]
    fn stochastic_is_a_mode(contract in contract(), seed in any::<u64>()) {
        let noisy = contract.stochastic(seed);
        prop_assert_eq!(noisy.mode, Mode::Stochastic(seed));
        prop_assert_eq!(RoundingContract { mode: Mode::Nearest, ..noisy }, contract.0);
        prop_assert_eq!(noisy.to_string(), contract.to_string());
        prop_assert_eq!(noisy.stored(), Rounding { storage: contract.activations, mode: Mode::Stochastic(seed) });
    }

    #[test]
    fn arithmetic_is_the_accumulators(contract in contract()) {
        prop_assert_eq!(contract.unit(), f32::UNIT_ROUNDOFF);
        let unknown = contract.accumulator == Accumulator::Unknown;
        let scalar = if unknown { Accumulator::Unknown } else { Accumulator::F32 };
        prop_assert_eq!(contract.scalar_accumulator(), scalar);
        prop_assert_eq!(contract.between(Chain::Each), contract.stored());
        prop_assert_eq!(contract.between(Chain::Once), Rounding::NONE);
    }
}

#[test]
fn presets() {
    for (name, contract) in RoundingContract::PRESETS {
        assert_eq!(name.parse(), Ok(contract));
        assert_eq!(contract.to_string(), name);
    }
    assert_eq!(RoundingContract::IDEAL.unit(), f64::UNIT_ROUNDOFF);
    assert_eq!(RoundingContract::IDEAL.scalar_accumulator(), Accumulator::F64);
    assert_eq!(RoundingContract::IDEAL.stored(), Rounding::NONE);
    let one = RoundingContract { rms: RmsRound::One, ..RoundingContract::EAGER_BF16 };
    assert_eq!(one.to_string(), "eager_bf16,rms=one");
    let f16 = RoundingContract { activations: Storage::F16, ..RoundingContract::FUSED };
    assert_eq!(f16.to_string(), "fused,activations=f16");
}

/// Under autocast what products give is of its type, too; tensor cores that take f32 as TF32 round operands alone, and no bias is one.
#[test]
fn tf32_rounds_operands_alone() {
    let contract: RoundingContract = "transformers_tf32".parse().expect("a profile");
    for (way, tf32) in [("autocast=tf32", Tf32::Rn), ("autocast=tf32_rna", Tf32::Rna), ("autocast=tf32_rz", Tf32::Rz)] {
        let (contract, tf32) = (contract.in_way(way).expect("a way"), Storage::Tf32(tf32));
        for products in [contract.of_products(), contract.of_experts()] {
            assert_eq!((products.operands, products.activations), (tf32, Storage::F32));
        }
        assert_eq!((contract.query(), contract.cached(), contract.shown()), (tf32, tf32, Storage::F32));
        let held = contract.held();
        assert_eq!([held.router, held.experts, held.others], [tf32; 3]);
        assert_eq!([held.vectors, held.biases, held.embedding, held.bias], [Storage::F32; 4]);
        let attention = contract.in_way("attention=uncast").expect("a way").attending(false);
        assert_eq!((attention.query(), attention.cached()), (Storage::Real, Storage::Real));
        assert_eq!(attention.attention, AttentionRound::Flash);
    }
    let narrow: RoundingContract = "transformers_autocast_bf16".parse().expect("a profile");
    assert_eq!((narrow.of_products().activations, narrow.held().biases), (Storage::Bf16, Storage::Bf16));
}

/// Loaders that undo a quantization leave all else as it is; what is multiplied as it is quantized is not undone.
#[test]
fn quantized_matrices_alone_are_dequantized_to_bf16() {
    let contract: RoundingContract = "transformers_f32,weights=dequantized_bf16".parse().expect("a precision");
    let held = contract.held();
    assert_eq!(
        (held.quantized, held.others, held.experts, held.vectors),
        (Storage::Bf16, Storage::Real, Storage::Real, Storage::Real)
    );
    let quantized = contract.in_way("inputs=fp8").expect("a mode").held().quantized;
    assert_eq!(quantized, Storage::Real);
}

#[test]
fn words_that_are_none() {
    for (text, want) in [
        (
            "",
            "precision = \"\", expected one of ideal, parity, fused, eager_bf16, eager_f16, eager_f32, transformers_bf16, \
             transformers_f16, transformers_f32, transformers_f64, transformers_autocast_bf16, \
             transformers_autocast_f16, transformers_compiled_bf16, transformers_compiled_f16, f32_residual_bf16, \
             f32_residual_f16, transformers_tf32, llama_cpp, vllm_bf16, vllm_f16, sglang_bf16, sglang_f16, mlx_bf16, mlx_f16, \
             port_bf16, port_f16, port_f32",
        ),
        ("fused,rms", r#"precision override = "rms", expected field=value"#),
        ("fused,rms=three", r#"rms = "three", expected two or one"#),
        (
            "fused,activations=fp8",
            r#"activations = "fp8", expected real, f32, tf32, tf32_rna, tf32_rz, f16, bf16, e4m3 or e5m2"#,
        ),
        (
            "fused,accumulator=tensor:1",
            "accumulator = \"tensor:1\", expected unknown, f64, f32, avx512_bf16, hopper, hopper_512, ampere, ada, turing, \
             volta, blackwell, hopper_fp8, hopper_fp8_128, hopper_fp8_mma, ada_fp8 or tensor:K:FRACTION:RESULT[:PROMOTE]",
        ),
        (
            "fused,norm=two",
            "precision field = \"norm\", expected one of activations, accumulator, reduction, stream, weights, one_plus, operands, inputs, autocast, convolutions, kv_cache, rms, qk_rms, \
             qk_norm, rope, attention, \
             gate, routing, swiglu, experts, norm_input, ranks, sharded, saved",
        ),
    ] {
        assert_eq!(text.parse::<RoundingContract>().expect_err("no contract").to_string(), want);
    }
}

/// What torch's flash attention takes for an exponential of arguments ≤ 0 is off by no more than is stated, and by nearly so much.
#[test]
fn the_exponentials_of_torch_are_off_by_what_is_stated() {
    let worst = |exponential: fn(f32) -> f32| {
        let arguments = (0..2_000_000).map(|i| -87.3 * f32::of(f64::from(i) / 2e6));
        arguments.map(|x| (f64::from(exponential(x)) / f64::from(x).exp() - 1.0).abs()).fold(0.0, f64::max)
    };
    for (exponential, storage) in [(fexp_u20 as fn(f32) -> f32, Storage::Bf16), (exp_u20, Storage::F32)] {
        let (stated, worst) = (AttentionRound::Sdpa.exponential(storage).off(), worst(exponential));
        assert!(0.9 * stated < worst && worst <= stated, "{storage}: {worst:e} of {stated:e}");
    }
}
