//! Logits less a number of each row, and scores that a number masks.

use fixtures::Dtype;
use reference::Storage;

use super::caches::{HEAD, HEADS, rotated};
use super::{Named, Values, dumped_as, holds, judged, judged_of, model, of_names, off};

/// Of each row what a function makes of it is taken.
fn less(values: Named, of: fn(&[f64]) -> f64) -> Named {
    let row = |_: usize, row: &[f64]| {
        let taken = of(row);
        row.iter().map(|z| z - taken).collect()
    };
    let less = |own: Values| own.rows(*own.shape.last().expect("it has an axis"), row);
    values.into_iter().map(|(name, own)| (name.clone(), if name == "logits" { less(own) } else { own })).collect()
}

#[test]
fn logits_may_have_lost_their_mean_or_their_largest() {
    let mean = |row: &[f64]| row.iter().sum::<f64>() / row.len() as f64;
    let largest = |row: &[f64]| row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let names = ["model.layers.1", "logits"];
    for of in [mean, largest as fn(&[f64]) -> f64] {
        holds(&names, |values| less(values, of), "logits", 2);
        holds(&["logits"], |values| less(values, of), "logits", 1);
    }
}

/// What an attention in f32 keeps of parts that were saved in f16 and in bf16, beside a stream as it was computed.
#[test]
fn parts_may_be_saved_in_two_types() {
    let names = ["model.layers.0", "model.layers.0.self_attn", "model.layers.0.mlp", "model.layers.1"];
    let saved = |mut values: Named| {
        for (name, storage) in [("model.layers.0.self_attn", Storage::Bf16), ("model.layers.0.mlp", Storage::F16)] {
            let own = values.get_mut(name).expect("it is there");
            own.of.iter_mut().for_each(|x| *x = storage.nearest(*x));
        }
        values
    };
    let model = model();
    let faults = |values: &Named| {
        let precision = Some("transformers_f32,saved=bf16");
        let requests = dumped_as(values, (Storage::F32, Dtype::F32), precision, &model).expect("it is read");
        judged_of(&requests, &model).expect("it can be put next to the reference").0
    };
    assert_eq!(faults(&saved(of_names(&names))), 0);
    assert!(faults(&saved(off(of_names(&names), "model.layers.0.mlp"))) > 0);
}

/// Query heads that read one key head.
const EACH: usize = 3;

/// \[1, heads, T, T\] of a layer, q·k/√D, with a number added to those of later keys, or in their place.
fn scores(values: &Named, layer: usize, mask: f64, is_added: bool) -> Values {
    let [cos, sin] = ["model.rotary_emb", "model.rotary_emb.1"].map(|name| &values[name]);
    let turned = |part: &str| rotated(&values[&format!("model.layers.{layer}.self_attn.{part}")], cos, sin);
    let (queries, keys, tokens) = (turned("q_norm"), turned("k_norm"), cos.shape[1]);
    let of = |head: usize, query: usize, key: usize| {
        let q = &queries.of[(query * EACH * HEADS + head) * HEAD..][..HEAD];
        let k = &keys.of[(key * HEADS + head / EACH) * HEAD..][..HEAD];
        let score = q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>() / (HEAD as f64).sqrt();
        if key > query { mask + if is_added { score } else { 0.0 } } else { score }
    };
    let rows = (0..EACH * HEADS).flat_map(|head| (0..tokens).map(move |query| (head, query)));
    let all = rows.flat_map(|(head, query)| (0..tokens).map(move |key| (head, query, key)));
    Values::new(&[1, EACH * HEADS, tokens, tokens], all.map(|(head, query, key)| of(head, query, key)).collect())
}

#[test]
fn scores_may_be_masked_by_a_number() {
    let names = [
        "model.rotary_emb",
        "model.rotary_emb.1",
        "model.layers.0.self_attn.q_norm",
        "model.layers.0.self_attn.k_norm",
        "model.layers.1.self_attn.q_norm",
        "model.layers.1.self_attn.k_norm",
        "logits",
    ];
    let masked = |mask: f64, is_added: bool| {
        move |values: Named| {
            let of_layer =
                |layer| (format!("model.layers.{layer}.self_attn.scores"), scores(&values, layer, mask, is_added));
            let scores: Vec<(String, Values)> = (0..2).map(of_layer).collect();
            values.into_iter().chain(scores).collect()
        }
    };
    for (mask, is_added) in [(f64::NEG_INFINITY, false), (f64::from(f32::MIN), true), (-1e9, false), (-1e4, true)] {
        holds(&names, masked(mask, is_added), "model.layers.1.self_attn.k_norm", 9);
    }
    // What is not small enough weighs something, and so does a later key without a mask.
    for mask in [0.0, -20.0] {
        let values = masked(mask, true)(of_names(&names));
        assert!(judged(&values).0 > 0, "{mask}");
    }
}
