//! Values that were rounded to a few decimals, as text or by `np.round`.

use super::{Named, of_names, try_judged};

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
