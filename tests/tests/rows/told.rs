//! Names of nobody: ports of one's own, and graphs whose operations are numbered. What they mean is told by values.

use std::collections::BTreeMap;

use super::shown::{assert_all_right, requests_of, rewritten, text, unstated};
use super::*;
use fixtures::names::at::At;
use tools::report::content::Conclusion;
use tools::session::asked::Asked;
use tools::session::verify::verify;

/// What somebody calls a site, if they show it.
type Named = fn(Site) -> Option<String>;

/// As small models in PyTorch are written.
fn of_torch(site: Site) -> Option<String> {
    Some(match site {
        Site::Embedding => "wte".to_owned(),
        Site::FinalNorm => "ln_f".to_owned(),
        Site::Logits => "head_out".to_owned(),
        Site::Layer(layer, site) => {
            let name = match site {
                LayerSite::InputNorm => "ln_1",
                LayerSite::QProj => "attn.wq",
                LayerSite::KProj => "attn.wk",
                LayerSite::VProj => "attn.wv",
                LayerSite::Attention => "attn.y",
                LayerSite::PostAttentionNorm => "ln_2",
                LayerSite::GateLogits => "moe.router",
                LayerSite::GateExperts => "moe.ids",
                LayerSite::GateWeights => "moe.gates",
                LayerSite::Mlp => "moe.y",
                LayerSite::Output => "y",
                _ => return None,
            };
            format!("tower.h.{layer}.{name}")
        }
        _ => return None,
    })
}

/// As C is written, with the stream before each layer.
fn of_c(site: Site) -> Option<String> {
    Some(match site {
        Site::Embedding => "l0_x".to_owned(),
        Site::Logits => "out".to_owned(),
        Site::Layer(layer, LayerSite::Output) => format!("l{}_x", layer + 1),
        Site::Layer(layer, LayerSite::QRope) => format!("l{layer}_q"),
        Site::Layer(layer, LayerSite::KRope) => format!("l{layer}_k"),
        Site::Layer(layer, LayerSite::Context) => format!("l{layer}_heads"),
        Site::Layer(layer, LayerSite::Attention) => format!("l{layer}_xb"),
        Site::Layer(layer, LayerSite::Mlp) => format!("l{layer}_xb2"),
        _ => return None,
    })
}

/// With layers that are counted from 1.
fn from_one(site: Site) -> Option<String> {
    Some(match site {
        Site::Embedding => "Embedder_0/y".to_owned(),
        Site::FinalNorm => "Norm_0/y".to_owned(),
        Site::Layer(layer, LayerSite::Attention) => format!("Block_{}/Mixer/y", layer + 1),
        Site::Layer(layer, LayerSite::Mlp) => format!("Block_{}/Ffn/y", layer + 1),
        Site::Layer(layer, LayerSite::Output) => format!("Block_{}/y", layer + 1),
        _ => return None,
    })
}

/// As a graph numbers its operations, whatever layer they are of.
fn of_graph(site: Site) -> Option<String> {
    let (layer, site) = match site {
        Site::Embedding => return Some("gather".to_owned()),
        Site::FinalNorm => return Some("mul_99".to_owned()),
        Site::Logits => return Some("dot_99".to_owned()),
        Site::Layer(layer, site) => (layer, site),
        _ => return None,
    };
    let (name, number) = match site {
        LayerSite::InputNorm => ("mul", 2 * layer),
        LayerSite::QProj => ("dot", 4 * layer),
        LayerSite::KProj => ("dot", 4 * layer + 1),
        LayerSite::VProj => ("dot", 4 * layer + 2),
        LayerSite::OProj => ("dot", 4 * layer + 3),
        LayerSite::Residual => ("add", 2 * layer),
        LayerSite::PostAttentionNorm => ("mul", 2 * layer + 1),
        LayerSite::Output => ("add", 2 * layer + 1),
        _ => return None,
    };
    Some(format!("{name}_{}", 10 + number))
}

const NAMED: [(&str, Named); 4] =
    [("torch", of_torch), ("C", of_c), ("counted from 1", from_one), ("a graph", of_graph)];

fn dumped(model: &Model, named: Named, calls: Vec<Value>, change: &dyn Fn(usize, usize, Site, &mut f64)) -> Dump {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dump = Laid { change, ..unstated(model, calls) }.write(folder.path());
    let own = |name: &str| {
        let (step, path) = At::split(name);
        let site = path.parse().expect("a site's");
        named(site).map(|name| if step == 0 { name } else { format!("step.{step}.{name}") })
    };
    rewritten(&dump, folder.path(), own, &[])
}

/// The sites that are read, by what they were called.
fn read(one: &Dumped) -> BTreeMap<Site, String> {
    one.values.reading().values.iter().map(|(at, place)| (at.site, place.tensor.clone())).collect()
}

/// What is passed on has the name of what passes it on.
fn as_passed_on(site: Site) -> Site {
    match site {
        Site::Layer(layer, LayerSite::OProj) => Site::Layer(layer, LayerSite::Attention),
        site => site,
    }
}

#[test]
fn names_of_nobody_are_told_by_values() {
    for case in CASES {
        let model = open(case);
        for (what, named) in NAMED {
            let dump = dumped(&model, named, vec![json!({ "tokens": [A] })], &as_it_is);
            let found = requests_of(&model, dump, Some(&text(&A))).expect("its rows are known");
            let sites = Site::all(model.checkpoint.config());
            let meant = sites.filter_map(|site| Some((as_passed_on(site), named(site)?))).collect();
            assert_eq!(read(&found[0]), meant, "{case}, {what}");
            assert_all_right(&format!("{case}, {what}"), &found, &model);
        }
    }
}

/// A prompt in chunks, and what is decoded after it.
#[test]
fn of_several_calls_the_first_tells() {
    let (first, rest) = A.split_at(4);
    for case in CASES {
        let model = open(case);
        let calls = vec![json!({ "tokens": [first] }), json!({ "tokens": [rest] }), one_each(&[8]), one_each(&[3])];
        let dump = dumped(&model, of_torch, calls, &as_it_is);
        let given = text(&[&A[..], &[8, 3]].concat());
        let found = requests_of(&model, dump, Some(&given)).expect("its rows are known");
        assert_eq!(found[0].steps.len(), 4, "{case}");
        assert_all_right(case, &found, &model);
    }
}

/// What is wrong is told by what is right before it, and by being nearer to what it should be than to all else.
#[test]
fn what_is_wrong_is_told_too() {
    for case in CASES {
        let model = open(case);
        let change = |_: usize, position: usize, site: Site, x: &mut f64| {
            if (position, site) == (3, Site::Layer(1, LayerSite::Attention)) {
                *x *= 1.3;
            }
        };
        for (what, named) in NAMED {
            let dump = dumped(&model, named, vec![json!({ "tokens": [A] })], &change);
            let found = requests_of(&model, dump, Some(&text(&A))).expect("its rows are known");
            let faults = faults(&reports(&model, &found[0]));
            let is_there = |(_, site, token): &(usize, Site, usize)| site.layer() == Some(1) && *token == 3;
            let is_shown = named(Site::Layer(1, LayerSite::Attention)).is_some();
            assert_eq!(!faults.is_empty() && faults.iter().all(is_there), is_shown, "{case}, {what}: {faults:?}");
        }
    }
}

/// The same without logits, which are told by their width.
fn of_graph_without_head(site: Site) -> Option<String> {
    of_graph(site).filter(|_| site != Site::Logits)
}

/// What is wrong by so much that it is near nothing, with all behind it, is not told: what is left says nothing of it, unless there are
/// logits.
#[test]
fn what_is_not_told_leaves_nothing_to_conclude() {
    for case in CASES {
        let model = Model { case: None, ..open(case) };
        let opposite = |_: usize, _: usize, site: Site, x: &mut f64| {
            let is_behind = site.layer().map_or(site >= Site::FinalNorm, |layer| layer > 0);
            *x = if is_behind { -*x } else { *x };
        };
        let concluded = |named: Named, change: &dyn Fn(usize, usize, Site, &mut f64)| {
            let dump = dumped(&model, named, vec![json!({ "tokens": [A] })], change);
            let given = Given { tokens: Some(text(&A)), ..Given::default() };
            let found = verify(&model, dump, &given, &Asked::default(), &mut |_| ()).expect("its rows are known");
            found[0].conclusion()
        };
        for (named, wrong) in [(of_graph as Named, Conclusion::Fail), (of_graph_without_head, Conclusion::Inconclusive)]
        {
            let expected = (Conclusion::Pass, wrong);
            assert_eq!((concluded(named, &as_it_is), concluded(named, &opposite)), expected, "{case}");
        }
    }
}

/// Without tokens there is nothing to tell by, and what is near nothing is not told.
#[test]
fn what_cannot_be_told_is_refused() {
    let model = Model { case: None, ..open(CASES[0]) };
    let made = |change: &dyn Fn(usize, usize, Site, &mut f64)| {
        dumped(&model, of_torch, vec![json!({ "tokens": [A] })], change)
    };
    let refused = |dump: Dump, given: Option<&str>| requests_of(&model, dump, given).expect_err("nobody knows");
    let opposite = |_: usize, _: usize, _: Site, x: &mut f64| *x = -*x;
    for refused in [refused(made(&opposite), Some(&text(&A))), refused(made(&as_it_is), None)] {
        assert!(refused.contains("names are known, read as transformers's; these are not: "), "{refused}");
    }
}
