//! Lists with a tensor for each layer, under numbers alone: what they are of is told by values.

use super::shown::{assert_all_right, requests_of, rewritten, text, unstated};
use super::*;

/// Values of each layer that are as wide as the residual stream.
const OF_LAYER: [LayerSite; 5] =
    [LayerSite::InputNorm, LayerSite::Attention, LayerSite::PostAttentionNorm, LayerSite::Mlp, LayerSite::Output];

/// A dump with one value of each layer, `np.savez(file, *list)`.
fn list(model: &Model, of: LayerSite, word: &str, change: &dyn Fn(usize, usize, Site, &mut f64)) -> Dump {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dump = Laid { change, ..unstated(model, vec![json!({ "tokens": [A] })]) }.write(folder.path());
    let layers = model.checkpoint.config().num_hidden_layers;
    let names: Vec<String> = (0..layers).map(|layer| Site::Layer(layer, of).to_string()).collect();
    let name = |name: &str| names.iter().position(|own| own == name).map(|layer| format!("{word}{layer}"));
    rewritten(&dump, folder.path(), name, &[])
}

#[test]
fn a_list_is_of_the_values_that_it_has() {
    for case in CASES {
        let model = open(case);
        for of in OF_LAYER {
            for word in ["arr_", "layer_"] {
                let dump = list(&model, of, word, &as_it_is);
                let found = requests_of(&model, dump, Some(&text(&A))).expect("its rows are known");
                let read = found[0].values.reading().list.map(|list| list.of);
                assert_eq!(read, Some(of), "{case} {word}");
                assert_all_right(case, &found, &model);
            }
        }
    }
}

/// As the last of transformers' `hidden_states` is, behind the final norm.
#[test]
fn the_last_of_a_list_may_be_normed() {
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dump = unstated(&model, vec![json!({ "tokens": [A] })]).write(folder.path());
        let last = model.checkpoint.config().num_hidden_layers - 1;
        let name = |name: &str| match name.parse().expect("a site") {
            Site::FinalNorm => Some(format!("layer_{last}")),
            Site::Layer(layer, LayerSite::Output) if layer < last => Some(format!("layer_{layer}")),
            _ => None,
        };
        let dump = rewritten(&dump, folder.path(), name, &[]);
        let found = requests_of(&model, dump, Some(&text(&A))).expect("its rows are known");
        let sites: Vec<Site> = found[0].values.sites().map(|at| at.site).collect();
        assert!(sites.contains(&Site::FinalNorm) && sites.len() == last + 1, "{case}: {sites:?}");
        let wrong = reports(&model, &found[0]).into_iter().find(|report| report.verdict > Verdict::Tie);
        assert!(wrong.is_none(), "{case}: {wrong:#?}");
    }
}

/// One that is wrong in a layer is that of this layer.
#[test]
fn a_list_that_is_wrong_is_at_fault() {
    let model = open(CASES[0]);
    let change = |_: usize, position: usize, site: Site, x: &mut f64| {
        if (position, site) == (3, Site::Layer(1, LayerSite::Attention)) {
            *x *= 1.1;
        }
    };
    let dump = list(&model, LayerSite::Attention, "arr_", &change);
    let found = requests_of(&model, dump, Some(&text(&A))).expect("its rows are known");
    let faults = faults(&reports(&model, &found[0]));
    assert!(faults.iter().all(|(_, site, token)| (site.layer(), *token) == (Some(1), 3)), "{faults:?}");
    assert_eq!(faults.len(), 1, "{faults:?}");
}

/// What is near nothing of a layer is not judged as one of its values, unless its names say that it is.
#[test]
fn numbers_alone_of_what_is_in_no_layer_are_refused() {
    let model = open(CASES[0]);
    let change = |_: usize, _: usize, _: Site, x: &mut f64| *x = -*x;
    let list = |word: &str| list(&model, LayerSite::Output, word, &change);
    let refused = requests_of(&model, list("arr_"), Some(&text(&A))).expect_err("nobody says what it is");
    assert!(refused.contains("names are numbers alone, and values are far from everything in a layer"), "{refused}");
    let found = requests_of(&model, list("layer_"), Some(&text(&A))).expect("they are of layers");
    assert!(!faults(&reports(&model, &found[0])).is_empty());
}
