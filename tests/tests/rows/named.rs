//! Names, types and shapes that other libraries give what they capture.

use fixtures::names::at::At;
use fixtures::{Dtype, Tensor};
use serde_json::json;

use super::shown::{assert_all_right, requests_of, rewritten, text, unstated};
use super::*;

/// `TransformerLens`' name of a site, of those that it has.
fn of_hooks(site: Site) -> Option<String> {
    let Site::Layer(layer, site) = site else {
        return (site == Site::Embedding).then(|| "hook_embed".to_owned());
    };
    let hook = match site {
        LayerSite::QProj => "attn.hook_q",
        LayerSite::KProj => "attn.hook_k",
        LayerSite::VProj => "attn.hook_v",
        LayerSite::QRope => "attn.hook_rot_q",
        LayerSite::KRope => "attn.hook_rot_k",
        LayerSite::Probabilities => "attn.hook_pattern",
        LayerSite::Context => "attn.hook_z",
        LayerSite::Attention => "hook_attn_out",
        LayerSite::Residual => "hook_resid_mid",
        LayerSite::Mlp => "hook_mlp_out",
        LayerSite::Output => "hook_resid_post",
        _ => return None,
    };
    Some(format!("blocks.{layer}.{hook}"))
}

/// nnterp's, which has lists.
fn of_lists(site: Site) -> Option<String> {
    match site {
        Site::Embedding => Some("token_embeddings".to_owned()),
        Site::Layer(layer, LayerSite::Attention) => Some(format!("attentions_output.{layer}")),
        Site::Layer(layer, LayerSite::Mlp) => Some(format!("mlps_output.{layer}")),
        Site::Layer(layer, LayerSite::Output) => Some(format!("layers_output.{layer}")),
        _ => None,
    }
}

#[test]
fn names_of_libraries_that_look_into_models() {
    for case in CASES {
        let model = open(case);
        for of in [of_hooks, of_lists] {
            let folder = tempfile::tempdir().expect("a temporary folder");
            let dump = unstated(&model, vec![json!({ "tokens": [A] })]).write(folder.path());
            let named = |name: &str| name.parse::<Site>().ok().and_then(of);
            let expected: Vec<&str> = dump.names().filter(|name| named(name).is_some()).collect();
            let dump = rewritten(&dump, folder.path(), named, &[]);
            let found = requests_of(&model, dump, Some(&text(&A))).expect("its rows are known");
            let [one] = &found[..] else { panic!("{case}: one request") };
            let sites = one.values.sites();
            assert_eq!(sites.filter(|at| expected.contains(&&*at.to_string())).count(), expected.len(), "{case}");
            assert_all_right(case, &found, &model);
        }
    }
}

/// What goes into an embedding, under the name of what comes out.
#[test]
fn numbers_of_tokens_are_no_embeddings() {
    let name = Site::Embedding.to_string();
    let ids: Vec<u8> = A.iter().flat_map(|&token| i64::from(token).to_le_bytes()).collect();
    let ids = Tensor::new(Dtype::I64, [1, A.len()], ids).expect("eight bytes each");
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dump = unstated(&model, vec![json!({ "tokens": [A] })]).write(folder.path());
        let others = |old: &str| (old != name).then(|| old.to_owned());
        let dump = rewritten(&dump, folder.path(), others, &[(&name, ids.clone())]);
        let found = requests_of(&model, dump, Some(&text(&A))).expect("its rows are known");
        let [one] = &found[..] else { panic!("{case}: one request") };
        assert!(one.values.sites().all(|at| at.site != Site::Embedding), "{case}");
        assert!(one.values.reading().ignored.iter().any(|(tensor, _)| *tensor == name), "{case}");
        assert_all_right(case, &found, &model);
    }
}

/// What a call of one token has, without any axis of 1.
#[test]
fn one_token_squeezed() {
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dump = unstated(&model, vec![json!({ "tokens": [A] }), one_each(&[8])]).write(folder.path());
        let is_step = |name: &&str| At::split(name).0 == 1;
        let squeezed = |name: &str| {
            let tensor = dump.tensor(name).expect("it is there");
            let shape: Vec<usize> = tensor.shape().iter().copied().filter(|&extent| extent != 1).collect();
            Tensor::new(tensor.dtype(), shape, tensor.bytes().to_vec()).expect("as many elements")
        };
        let step: Vec<(&str, Tensor<'_>)> = dump.names().filter(is_step).map(|name| (name, squeezed(name))).collect();
        assert!(step.iter().any(|(_, tensor)| tensor.shape().len() == 1), "{case}");
        let prompt = |name: &str| (!is_step(&name)).then(|| name.to_owned());
        let other = rewritten(&dump, folder.path(), prompt, &step);
        let given = text(&[&A[..], &[8]].concat());
        let found = requests_of(&model, other, Some(&given)).expect("its rows are known");
        let [one] = &found[..] else { panic!("{case}: one request") };
        let sites = |step: usize| one.values.sites().filter(|at| at.step == step).count();
        assert_eq!(sites(0), sites(1), "{case}");
        assert_all_right(case, &found, &model);
    }
}

/// A map of one's own, of which some rules are of no name.
#[test]
fn rules_that_have_no_name_are_told() {
    let model = Model { case: None, ..open(CASES[0]) };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dump = unstated(&model, vec![json!({ "tokens": [A] })]).write(folder.path());
    let dump = rewritten(&dump, folder.path(), |name| Some(format!("q{}", name.replace('.', "q"))), &[]);
    let names = folder.path().join("names.json");
    let rules = json!([{"from": "w{layer}", "to": "model.layers.{layer}"}, {"from": "qlogits", "to": "logits"}]);
    std::fs::write(&names, json!({"schema": 1, "engine": "mine", "rules": rules}).to_string()).expect("writable");
    let given = Given { tokens: Some(text(&A)), names: Some(names), ..Given::default() };
    let refused = Dumped::of(dump, &given, &model).expect_err("few names are known");
    let advice = refused.advice().expect("it says what to do");
    assert!(advice.ends_with("2 rules, these have no name in the dump: w{layer}"), "{advice}");
}

/// As a folder has them in which each step has a file of its tokens.
#[test]
fn tokens_may_stand_beside_each_step() {
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let steps = vec![json!({ "tokens": [A] }), one_each(&[8]), one_each(&[5])];
        let dump = unstated(&model, steps).write(folder.path());
        let ids = |tokens: &[u32]| {
            let bytes: Vec<u8> = tokens.iter().flat_map(|&token| i64::from(token).to_le_bytes()).collect();
            Tensor::new(Dtype::I64, [tokens.len()], bytes).expect("eight bytes each")
        };
        let others = |name: &str| (!name.contains("embed")).then(|| name.to_owned());
        let beside = [("tokens", ids(&A)), ("step.1.tokens", ids(&[8])), ("step.2.tokens", ids(&[5]))];
        let dump = rewritten(&dump, folder.path(), others, &beside);
        let found = requests_of(&model, dump, None).expect("its tokens are known");
        let [one] = &found[..] else { panic!("{case}: one request") };
        assert_eq!(one.steps, [A.to_vec(), vec![8], vec![5]], "{case}");
        assert_all_right(case, &found, &model);
    }
}
