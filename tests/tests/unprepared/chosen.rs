//! What was chosen, experts and blocks of keys, as kernels and engines keep it.

use super::{Named, Values, faults, of_case, off};

const CASE: &str = "m3-gqa4-f32";

/// Tokens, the heads that choose, the blocks that there are, and how many are chosen.
const TOKENS: usize = 34;
const CHOOSERS: usize = 2;
const BLOCKS: f64 = 9.0;
const CHOSEN: usize = 3;

const INDEXER: &str = "model.layers.2.self_attn.indexer";

fn blocks() -> Named {
    of_case(CASE, &[INDEXER, "model.layers.2.self_attn.o_proj", "model.layers.1", "model.layers.2"])
}

/// The blocks with so many slots, and a number in those that are empty.
fn padded(slots: usize, empty: f64) -> Named {
    let mut values = blocks();
    let with = |_: usize, row: &[f64]| {
        let marked = row.iter().map(|block| if *block < 0.0 { empty } else { *block });
        marked.chain(std::iter::repeat_n(empty, slots - row.len())).collect()
    };
    values.entry(INDEXER.to_owned()).and_modify(|of| *of = of.rows(slots, with));
    values
}

/// The same with another block in a slot of the last token.
fn wrong(mut values: Named, slot: usize, block: f64) -> Named {
    let Values { shape, of } = values.get_mut(INDEXER).expect("it is there");
    assert_eq!(shape[1..3], [CHOOSERS, TOKENS]);
    of[(TOKENS - 1) * shape[3] + slot] = block;
    values
}

#[test]
fn empty_slots_may_have_a_number_that_no_block_has() {
    for (slots, empty) in [(CHOSEN, BLOCKS), (CHOSEN, 1000.0), (16, -1.0), (16, BLOCKS)] {
        let what = format!("{empty} in {slots} slots");
        assert_eq!(faults(CASE, &padded(slots, empty)), 0, "{what}");
        // The last token sees all blocks: it has to choose as many as there are slots for, and none beyond.
        for (slot, block) in [(CHOSEN - 1, BLOCKS), (CHOSEN - 1, BLOCKS + 1.0), (CHOSEN - 1, -1.0)] {
            assert!(faults(CASE, &wrong(padded(slots, empty), slot, block)) > 0, "{what}: {block} in slot {slot}");
        }
    }
}

/// Of a prompt of which the last rows alone are kept, attention is judged with all tokens, also where it shows its blocks.
#[test]
fn blocks_may_be_those_of_the_last_tokens() {
    let [attention, stream] = ["model.layers.2.self_attn", "model.layers.1"];
    let kept = |values: Named| -> Named {
        let last = |(name, of): (String, Values)| {
            if name != INDEXER {
                let of = of.tokens(10..TOKENS);
                return (name, of);
            }
            let heads = of.of.chunks(TOKENS * CHOSEN).flat_map(|head| head[10 * CHOSEN..].to_vec());
            (name, Values::new(&[1, CHOOSERS, TOKENS - 10, CHOSEN], heads.collect()))
        };
        values.into_iter().map(last).collect()
    };
    let names = ["model.embed_tokens", "model.layers.0", stream, attention, "model.layers.2", INDEXER];
    assert_eq!(faults(CASE, &kept(of_case(CASE, &names))), 0);
    for name in [attention, stream, "model.layers.0"] {
        assert!(faults(CASE, &kept(off(of_case(CASE, &names), name))) > 0, "{name} is 5 % off");
    }
    assert!(faults(CASE, &kept(wrong(of_case(CASE, &names), CHOSEN - 1, -1.0))) > 0, "a block is missing");
    let beside = [&names[..], &["model.layers.2.mlp.gate.1", "model.layers.2.mlp.gate.2"]].concat();
    assert_eq!(faults(CASE, &kept(of_case(CASE, &beside))), 0, "beside experts");
}

/// A slot more than are chosen is a choice more where something is in it.
#[test]
fn slots_beyond_those_that_are_chosen_are_empty() {
    let own = &blocks()[INDEXER].of[(TOKENS - 1) * CHOSEN..][..CHOSEN];
    let other = (0..9).map(f64::from).find(|block| !own.contains(block)).expect("there are more");
    assert!(faults(CASE, &wrong(padded(16, -1.0), CHOSEN, other)) > 0);
}

/// Engines keep weights that are times the routed scaling factor, beside the numbers of the experts.
#[test]
fn routing_weights_may_be_scaled() {
    let [mlp, norm] = ["model.layers.2.mlp", "model.layers.2.post_attention_layernorm"];
    let written = |scale: f64, [weights, ids]: [&str; 2]| {
        let mut values = of_case(CASE, &[mlp, norm, "model.layers.2.mlp.gate.1", "model.layers.2.mlp.gate.2"]);
        let mut own = ["gate.1", "gate.2"].map(|name| values.remove(&format!("{mlp}.{name}")).expect("it is there"));
        own[0].of.iter_mut().for_each(|weight| *weight *= scale);
        values.extend([weights, ids].map(|name| format!("{mlp}.{name}")).into_iter().zip(own));
        values
    };
    let topk = ["topk_weights", "topk_ids"];
    for scale in [1.0, 2.0] {
        assert_eq!(faults(CASE, &written(scale, topk)), 0, "times {scale}");
        assert!(faults(CASE, &off(written(scale, topk), mlp)) > 0, "times {scale}, 5 % off");
        assert!(faults(CASE, &off(written(scale, topk), &format!("{mlp}.topk_weights"))) > 0, "of weights 5 % off");
    }
    assert!(faults(CASE, &written(3.0, topk)) > 0, "no factor of the model");
    assert!(faults(CASE, &written(2.0, ["gate.1", "gate.2"])) > 0, "the router's own are not scaled");
}
