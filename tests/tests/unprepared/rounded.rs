//! Values that were rounded to a few decimals, as text or by `np.round`, or whose bits are called those of whole numbers.

use fixtures::Dtype;
use reference::Storage;

use super::{Named, Values, dumped_as, model, of_names, try_judged};

#[test]
fn few_decimals_are_refused() {
    let names = ["model.layers.0", "model.layers.0.mlp", "model.layers.1", "logits"];
    let rounded = |digits: i32| -> Named {
        let (unit, mut values) = (10.0_f64.powi(digits), of_names(&names));
        values.values_mut().flat_map(|values| &mut values.of).for_each(|x| *x = (*x * unit).round() / unit);
        values
    };
    for digits in [3, 4, 6] {
        let refused = try_judged(&rounded(digits)).expect_err("refused");
        let problem = format!("have {digits} decimals: they were rounded when they were saved");
        assert!(refused.contains(&problem), "{refused}");
    }
    assert_eq!(try_judged(&of_names(&names)).map(|(faults, _)| faults), Ok(0));
}

/// Of few keys probabilities are 0, which most are in a cache of fixed length, or so large that f32 has no more decimals.
#[test]
fn probabilities_of_few_keys_are_not_rounded() {
    const KEYS: usize = 3;
    const SLOTS: usize = 16;
    let first = |(name, of): (String, Values)| {
        let Values { shape, of: all } = &of;
        let [1, heads, tokens, _] = shape[..] else { return (name, of.tokens(0..KEYS)) };
        let row = |row: usize| [&all[row * tokens..][..KEYS], &[0.0; SLOTS - KEYS]].concat();
        let rows = (0..heads).flat_map(|head| (0..KEYS).map(move |token| head * tokens + token));
        (name, Values::new(&[1, heads, KEYS, SLOTS], rows.flat_map(row).collect()))
    };
    let names = ["model.layers.0.self_attn.1", "model.layers.0", "model.layers.1.self_attn.1", "model.layers.1"];
    let values: Named = of_names(&names).into_iter().map(first).collect();
    assert_eq!(try_judged(&values).map(|(faults, _)| faults), Ok(0));
}

/// `tensor.view(torch.int16).numpy()`, of bf16: whole numbers have no decimals, and are no activations.
#[test]
fn the_bits_of_bf16_are_read() {
    let values = of_names(&["model.layers.0", "model.layers.0.mlp", "model.layers.1", "logits"]);
    for dtype in [Dtype::U16, Dtype::I16] {
        let requests = dumped_as(&values, (Storage::Bf16, dtype), None, &model()).expect("it is read");
        assert_eq!(requests[0].known.contract.shown(), Storage::Bf16);
        let said = requests[0].values.remarks().concat();
        assert!(said.contains("are read as the bits of bf16"), "{said}");
    }
}

/// Codes of a quantized cache, whose scales are beside it under names of its own.
#[test]
fn eight_bits_are_no_activations() {
    let values = of_names(&["model.layers.0", "model.layers.0.mlp"]);
    let refused = dumped_as(&values, (Storage::E4m3, Dtype::I8), None, &model()).expect_err("refused");
    assert!(refused.contains("activations are saved in 8 bits at 2 of 2 sites"), "{refused}");
}
