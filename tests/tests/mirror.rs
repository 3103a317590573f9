//! One operator, one name, a file in each tree; and where an operator is implemented twice, both state the same sentence
//! and the same equation.

use std::collections::BTreeMap;

use optimized::kernel::table::KERNELS;
use tests::repository;

/// The beginning of an operator's header.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    /// What it does.
    sentence: String,
    /// The `text` block.
    equation: String,
}

/// Reads a header whose lines begin with `marker`; the error says what it lacks.
fn header(text: &str, marker: &str) -> Result<Header, String> {
    let lines = text.lines().map_while(|line| line.strip_prefix(marker));
    let lines: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    let sentence: Vec<&str> = lines.iter().copied().take_while(|line| !line.is_empty()).collect();
    let mut rest = lines.iter().skip(sentence.len() + 1);
    if sentence.is_empty() || rest.next() != Some(&"```text") {
        return Err(format!(
            "begin it with lines of `{marker}`: a sentence, an empty line, and the equation in ```text"
        ));
    }
    let equation: Vec<&str> = rest.copied().take_while(|line| *line != "```").collect();
    Ok(Header { sentence: sentence.join(" "), equation: equation.join("\n") })
}

/// What is wrong with a kernel's files, each with what to do, where `text` gives the text of a file.
fn complaints(op: &str, listed: &[&str], text: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let (kernel, oracle) = (format!("optimized/kernels/{op}.cu"), format!("reference/src/ops/{op}.rs"));
    let mut found = Vec::new();
    let trees = ["reference/src/ops", "optimized/src/ops", "tests/tests/ops", "tests/tests/device"];
    for tree in trees {
        if text(&format!("{tree}/{op}.rs")).is_none() {
            found.push(format!("{op}: write {tree}/{op}.rs, because there is {kernel}"));
        }
        if text(&format!("{tree}.rs")).is_none_or(|parent| !parent.contains(&format!("mod {op};"))) {
            found.push(format!("{op}: name `mod {op};` in {tree}.rs"));
        }
    }
    if !listed.contains(&op) {
        found.push(format!("{op}: name it in KERNELS, in optimized/src/kernel/table.rs"));
    }
    let read = |path: &str, marker| {
        let text = text(path).unwrap_or_default();
        header(&text, marker).map_err(|todo| format!("{path} has no header: {todo}"))
    };
    match (read(&oracle, "//!"), read(&kernel, "//")) {
        (Ok(right), Ok(copy)) => {
            let parts = [(right.sentence, copy.sentence, "sentence"), (right.equation, copy.equation, "equation")];
            for (right, copy, part) in parts {
                if right != copy {
                    let says = "decide by the spec which is right, and copy it to the other";
                    found.push(format!(
                        "{op}: {says}, because the {part} is\n{right}\nin {oracle}, and\n{copy}\nin {kernel}"
                    ));
                }
            }
        }
        (right, copy) => found.extend([right, copy].into_iter().filter_map(Result::err)),
    }
    found
}

/// The operators that KERNELS lists.
fn listed() -> Vec<&'static str> {
    KERNELS.iter().map(|kernel| kernel.op).collect()
}

fn demand_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "{}", complaints.join("\n\n"));
}

#[test]
fn every_kernel_has_its_files_in_all_trees() {
    let kernels = repository::files("optimized/kernels", &["cu"]);
    assert!(!kernels.is_empty());
    let ops = kernels.iter().map(|path| repository::stem(path));
    let found: Vec<String> = ops.flat_map(|op| complaints(op, &listed(), repository::text)).collect();
    demand_none(&found);
}

/// The other way round: nothing in a tree is left over from an operator that is no more.
#[test]
fn every_file_of_the_cuda_path_has_its_kernel() {
    let kernel_of = |op: &str| repository::text(&format!("optimized/kernels/{op}.cu"));
    let mut found = Vec::new();
    for tree in ["optimized/src/ops", "tests/tests/device"] {
        for path in repository::files(tree, &["rs"]) {
            let op = repository::stem(&path);
            if kernel_of(op).is_none() {
                found.push(format!("{path}: write optimized/kernels/{op}.cu, or remove it"));
            }
        }
    }
    for op in listed() {
        if kernel_of(op).is_none() {
            found.push(format!("optimized/src/kernel/table.rs: write optimized/kernels/{op}.cu, or remove {op}"));
        }
    }
    demand_none(&found);
}

/// Operators without a kernel have tests of the same name, too.
#[test]
fn every_operator_of_the_reference_has_a_header_and_tests() {
    let parent = repository::text("reference/src/ops.rs").expect("the operators are declared there");
    let ops = parent.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
    let mut found = Vec::new();
    for op in ops {
        let (path, tests) = (format!("reference/src/ops/{op}.rs"), format!("tests/tests/ops/{op}.rs"));
        if let Err(todo) = header(&repository::text(&path).unwrap_or_default(), "//!") {
            found.push(format!("{path} has no header: {todo}"));
        }
        if repository::text(&tests).is_none() {
            found.push(format!("{op}: write {tests}, because there is {path}"));
        }
    }
    demand_none(&found);
}

/// Files of one operator as they should be.
fn right_files() -> BTreeMap<&'static str, String> {
    let header = |marker: &str| {
        let lines =
            ["Twice: doubles each value,", "whatever its sign.", "", "```text", "yᵢ = 2·xᵢ", "```", "", "More."];
        lines.map(|line| format!("{marker} {line}").trim_end().to_owned() + "\n").concat()
    };
    let parent = || "mod other;\nmod twice;\n".to_owned();
    BTreeMap::from([
        ("optimized/kernels/twice.cu", header("//") + "\n#include \"simt.cuh\"\n"),
        ("reference/src/ops/twice.rs", header("//!") + "\nuse crate::Real;\n"),
        ("reference/src/ops.rs", parent()),
        ("optimized/src/ops/twice.rs", String::new()),
        ("optimized/src/ops.rs", parent()),
        ("tests/tests/ops/twice.rs", String::new()),
        ("tests/tests/ops.rs", parent()),
        ("tests/tests/device/twice.rs", String::new()),
        ("tests/tests/device.rs", parent()),
    ])
}

fn complaints_of(files: &BTreeMap<&str, String>, listed: &[&str]) -> Vec<String> {
    complaints("twice", listed, |path| files.get(path).cloned())
}

#[test]
fn right_files_are_accepted() {
    assert_eq!(complaints_of(&right_files(), &["twice"]), Vec::<String>::new());
}

#[test]
fn each_missing_file_is_named() {
    assert_eq!(complaints_of(&right_files(), &["thrice"]).len(), 1);
    for missing in right_files().into_keys() {
        let mut files = right_files();
        files.remove(missing);
        let found = complaints_of(&files, &["twice"]);
        assert!(!found.is_empty() && found.iter().all(|complaint| complaint.contains(missing)), "{missing}: {found:?}");
    }
}

#[test]
fn headers_that_differ_are_named() {
    for path in ["optimized/kernels/twice.cu", "reference/src/ops/twice.rs"] {
        let edits =
            [("doubles", "triples"), ("2·xᵢ", "2·xⱼ"), ("2·xᵢ", "2 ·xᵢ"), ("```text", "```"), ("sign.", "sign")];
        for (from, to) in edits.into_iter().filter(|(from, _)| right_files()[path].contains(from)) {
            let mut files = right_files();
            let text = files.get_mut(path).expect("it is there");
            *text = text.replacen(from, to, 1);
            let found = complaints_of(&files, &["twice"]);
            assert_eq!(found.len(), 1, "{path}, {from} to {to}: {found:?}");
        }
    }
}

/// Where a line is broken does not matter, nor what follows the equation.
#[test]
fn headers_may_be_wrapped_differently() {
    let mut files = right_files();
    let text = files.get_mut("optimized/kernels/twice.cu").expect("it is there");
    *text = text.replace("value,\n// whatever", "value, whatever").replace("More.", "Something else.");
    assert_eq!(complaints_of(&files, &["twice"]), Vec::<String>::new());
}
