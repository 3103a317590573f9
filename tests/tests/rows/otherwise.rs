//! Names that mean one thing in one engine and another in another, or the last of several values: what they are is told by values.

use super::shown::{assert_all_right, requests_of, rewritten, text, unstated};
use super::*;
use fixtures::Tensor;
use reference::Storage;

/// What people call a site, if they show it.
type Named = fn(Site) -> Option<String>;

/// What decoder layers return in two engines, two tensors each.
fn pair(site: Site, [first, second]: [&str; 2]) -> Option<String> {
    match site {
        Site::Layer(layer, LayerSite::Mlp) => Some(format!("model.layers.{layer}.{first}")),
        Site::Layer(layer, LayerSite::Residual) => Some(format!("model.layers.{layer}.{second}")),
        _ => None,
    }
}

fn by_place(site: Site) -> Option<String> {
    pair(site, ["0", "1"])
}

fn by_name(site: Site) -> Option<String> {
    pair(site, ["hidden_states", "residual"])
}

/// Of llama.cpp's values, of which projections and what is rotated have one name.
fn of_last(site: Site) -> Option<String> {
    let Site::Layer(layer, site) = site else { return None };
    let name = match site {
        LayerSite::InputNorm => "attn_norm",
        LayerSite::QRope => "Qcur",
        LayerSite::KRope => "Kcur",
        LayerSite::VProj => "Vcur",
        LayerSite::Context => "kqv_out",
        LayerSite::Residual => "ffn_inp",
        LayerSite::Output => "l_out",
        _ => return None,
    };
    Some(format!("{name}-{layer}"))
}

/// Some of `hidden_states`, by their number there: what goes into layers.
fn of_states(site: Site) -> Option<String> {
    match site {
        Site::Layer(0, LayerSite::Output) => Some("layer_1".to_owned()),
        _ => None,
    }
}

fn of_hidden_states(site: Site) -> Option<String> {
    of_states(site).map(|_| "hidden_states.1".to_owned())
}

/// What goes into each layer, and what comes out of the last, before the final norm.
fn of_stream(site: Site) -> Option<String> {
    match site {
        Site::Embedding => Some("hidden_states.0".to_owned()),
        Site::Layer(layer, LayerSite::Output) => Some(format!("hidden_states.{}", layer + 1)),
        _ => None,
    }
}

/// Lists with one value of each layer.
fn of_lists(site: Site) -> Option<String> {
    match site {
        Site::Layer(layer, LayerSite::Attention) => Some(format!("attn_out.{layer}")),
        Site::Layer(layer, LayerSite::Mlp) => Some(format!("mlp_out.{layer}")),
        _ => None,
    }
}

/// What attention adds up, as the library's code calls it before and after its output projection.
fn of_context(site: Site) -> Option<String> {
    match site {
        Site::Layer(layer, LayerSite::Context) => Some(format!("layer_{layer}_attn_output")),
        _ => None,
    }
}

const NAMED: [(&str, Named); 7] = [
    ("pairs", by_place),
    ("pairs by name", by_name),
    ("the last of a name", of_last),
    ("some of the stream", of_states),
    ("some of hidden states", of_hidden_states),
    ("the stream before the norm", of_stream),
    ("lists of modules", of_lists),
];

/// A model whose heads are together as wide as its stream, so that no width tells one from the other.
#[test]
fn what_attention_adds_up_may_be_called_its_output() {
    let model = open(CASES[0]);
    let found = shown(&model, of_context, &as_it_is);
    let layers = 0..model.checkpoint.config().num_hidden_layers;
    let meant: Vec<Site> = layers.map(|layer| Site::Layer(layer, LayerSite::Context)).collect();
    assert_eq!(found[0].values.sites().map(|at| at.site).collect::<Vec<_>>(), meant);
    assert_all_right("what attention adds up", &found, &model);
}

fn shown(model: &Model, named: Named, change: &dyn Fn(usize, usize, Site, &mut f64)) -> Vec<Dumped> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dump = Laid { change, ..unstated(model, vec![json!({ "tokens": [A] })]) }.write(folder.path());
    let dump = rewritten(&dump, folder.path(), |name| named(name.parse().expect("a site")), &[]);
    requests_of(model, dump, Some(&text(&A))).expect("its rows are known")
}

#[test]
fn names_are_of_what_values_are() {
    // Of the last, precisions are not looked for in all layers.
    for case in [CASES[0], CASES[1], "m2-mha-top1-f32"] {
        let model = open(case);
        for (what, named) in NAMED {
            let found = shown(&model, named, &as_it_is);
            let read: Vec<Site> = found[0].values.sites().map(|at| at.site).collect();
            let meant: Vec<Site> = Site::all(model.checkpoint.config()).filter(|site| named(*site).is_some()).collect();
            assert_eq!(read, meant, "{case}, {what}");
            assert_all_right(&format!("{case}, {what}"), &found, &model);
        }
    }
}

/// Tensors without a row, as of a hook that ran on nothing.
#[test]
fn what_has_no_rows_is_refused() {
    let model = open(CASES[0]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dump = unstated(&model, vec![json!({ "tokens": [A] })]).write(folder.path());
    let empty = Tensor::stored(Storage::F32, [0, model.checkpoint.config().hidden_size], []).expect("as many");
    let tensors = ["model.norm", "model.embed_tokens"].map(|name| (name, empty.clone()));
    let dump = rewritten(&dump, folder.path(), |_| None, &tensors);
    let refused = requests_of(&model, dump, Some(&text(&A))).expect_err("there is nothing to judge");
    assert!(refused.contains("have 0 rows a request, and the prompt 7 tokens"), "{refused}");
}

/// A value that is wrong is that of the same site.
#[test]
fn what_is_wrong_is_read_alike() {
    let broken = Site::Layer(1, LayerSite::Mlp);
    let change = |_: usize, position: usize, site: Site, x: &mut f64| {
        if (position, site) == (3, broken) {
            *x *= 1.1;
        }
    };
    let model = open(CASES[0]);
    for named in [by_place, by_name, of_lists] {
        let found = shown(&model, named, &change);
        assert_eq!(faults(&reports(&model, &found[0])), [(0, broken, 3)]);
    }
}
