//! Values that were rounded to a few decimals, as text or by `np.round`, or whose bits are called those of whole numbers.

use fixtures::Dtype;
use reference::Storage;

use super::{Named, dumped_as, model, of_names, try_judged};

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
