//! Logits less a number of each row, and scores that a number masks.

use fixtures::Dtype;
use reference::Storage;

use super::{Named, Values, dumped_as, holds, judged_of, model, of_names, off, try_judged};

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
    assert!(try_judged(&of_names(&names)).is_ok());
}
