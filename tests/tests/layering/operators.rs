//! I6: an operator's file uses no other operator's, but for those that are compositions.

use tests::repository::stem;

use super::{RUST, code, demand_none, sources};

/// The operators that compose others, and which.
const COMPOSED: [(&str, &[&str]); 14] = [
    ("qk_norm", &["rms_norm"]),
    ("sharded_norm", &["rms_norm"]),
    ("qk_norm_rope", &["qk_norm", "rms_norm", "rope"]),
    ("add_rms_norm", &["residual", "rms_norm"]),
    ("block_sparse_attention", &["attention"]),
    ("swiglu", &["gelu"]),
    ("dense_ffn", &["linear", "swiglu", "swiglu_oai"]),
    ("linear_bias", &["linear"]),
    ("patch_embedding", &["linear"]),
    ("axial_rope", &["rope"]),
    ("vision_attention", &["attention"]),
    ("load_balancing", &["router"]),
    ("hybrid_attention", &["attention"]),
    ("gated_lightning", &["lightning_attention", "linear", "rms_norm", "swiglu"]),
];

/// I6: the operators among `all` that a file of `op` uses without being listed.
fn used_operators(path: &str, op: &str, text: &str, all: &[&str]) -> Vec<String> {
    let allowed = COMPOSED.iter().find(|(composing, _)| *composing == op).map_or(&[][..], |(_, parts)| parts);
    let others = all.iter().filter(|other| **other != op && !allowed.contains(other));
    let is_name = |c: char| c == '_' || c.is_alphanumeric();
    let uses = |line: &str, other: &str| {
        line.match_indices(&format!("{other}::")).any(|(at, _)| !line[..at].ends_with(is_name))
    };
    let rule = "I6: a leaf operator uses no other; inline it, or list it in COMPOSED";
    let used = others.filter(|other| code(text).any(|(_, line)| uses(line, other)));
    used.map(|other| format!("{path}: {rule}: {other}")).collect()
}

#[test]
fn operators_are_leaves_or_listed() {
    let folder = "reference/src/ops";
    let sources = sources(RUST);
    let of_ops = |path: &str| path.strip_prefix(folder)?.strip_prefix('/').map(str::to_owned);
    let is_op = |path: &str| of_ops(path).is_some_and(|rest| !rest.contains('/'));
    let ops: Vec<&str> = sources.iter().filter(|(path, _)| is_op(path)).map(|(path, _)| stem(path)).collect();
    assert!(COMPOSED.iter().all(|(op, parts)| ops.contains(op) && parts.iter().all(|part| ops.contains(part))));
    let mut found = Vec::new();
    for (path, text) in &sources {
        if let Some(rest) = of_ops(path) {
            let op = rest.split(['/', '.']).next().expect("a path has a first part");
            found.extend(used_operators(path, op, text, &ops));
        }
    }
    demand_none(&found);
}

#[test]
fn what_is_not_listed_is_found() {
    let all = ["norm", "rms_norm", "rope", "qk_norm"];
    let uses = |op, text| used_operators("a.rs", op, text, &all).len();
    assert_eq!(uses("rope", "use super::rms_norm::RmsNorm;\n"), 1);
    assert_eq!(uses("rope", "use crate::ops::norm::Norm; let x = super::qk_norm::f();\n"), 2);
    assert_eq!(uses("qk_norm", "use super::rms_norm::RmsNorm;\n// rope::rope\nlet a_rope::b;\n"), 0);
}
