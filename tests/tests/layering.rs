//! Who may use whom, and how long a file may be. Each rule is tried on text that breaks it, too.

mod circles;
mod families;

use tests::repository::{self, MEMBERS, stem};

/// Text that some sources may not have. What a line says after `//` does not count.
struct Ban {
    /// The rule, and what to do instead.
    rule: &'static str,
    /// Folders of the sources concerned.
    folders: &'static [&'static str],
    /// Endings of their names.
    extensions: &'static [&'static str],
    /// What they may not have.
    words: &'static [&'static str],
    /// Sources that may.
    except: &'static [&'static str],
}

const RUST: &[&str] = &["rs"];
const KERNELS: &[&str] = &["cu", "cuh"];
const LIBRARIES: &[&str] = &["reference/src", "fixtures/src", "optimized/src", "tests/src"];

const BANS: [Ban; 9] = [
    Ban {
        rule: "I1: the reference neither reads nor writes; do that in fixtures or tools",
        folders: &["reference/src"],
        extensions: RUST,
        words: &["std::fs", "std::io", "std::env", "std::net", "std::process"],
        except: &[],
    },
    Ban {
        rule: "I1: the reference has no unsafe code",
        folders: &["reference/src"],
        extensions: RUST,
        words: &["unsafe"],
        except: &[],
    },
    Ban {
        rule: "I2: fixtures know the reference's types only; compute in tools or tests",
        folders: &["fixtures/src"],
        extensions: RUST,
        words: &["reference::ops", "reference::models", "reference::decode", "reference::run", "reference::probe"],
        except: &[],
    },
    Ban {
        rule: "I5: only tools print, read arguments and exit; return a value or an error",
        folders: LIBRARIES,
        extensions: RUST,
        words: &["println!(", "print!(", "env::args", "process::exit", "ExitCode"],
        except: &["tests/src/program.rs"], // the program, where the tests find it
    },
    Ban {
        rule: "work that is not done is no code; do it, or leave it out",
        folders: &MEMBERS,
        extensions: RUST,
        words: &["todo!(", "unimplemented!(", "dbg!("],
        except: &["tests/tests/layering.rs"],
    },
    Ban {
        rule: "lints are expected with a reason, one by one, never allowed",
        folders: &MEMBERS,
        extensions: RUST,
        words: &["#[allow(", "#![allow(", "#![expect("],
        except: &["tests/tests/layering.rs"],
    },
    Ban {
        rule: "code is in modules, so that it has one path; write `mod`",
        folders: &["reference", "fixtures", "tools", "tests"],
        extensions: RUST,
        words: &["include!("],
        except: &["tests/tests/layering.rs"],
    },
    Ban {
        rule: "inline PTX is in simt.cuh only, so that the emulated device knows it by name",
        folders: &["optimized/kernels"],
        extensions: KERNELS,
        words: &["asm("],
        except: &["optimized/kernels/include/simt.cuh"],
    },
    Ban {
        rule: "shared memory is SHARED_MEMORY or SHARED_ARRAY, because the emulated device checks no other",
        folders: &["optimized/kernels"],
        extensions: KERNELS,
        words: &["__shared__"],
        except: &["optimized/kernels/include/simt.cuh"],
    },
];

/// The lines of a source with their numbers, without comments.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().map(|(i, line)| (i + 1, line.split("//").next().unwrap_or_default()))
}

impl Ban {
    fn concerns(&self, path: &str) -> bool {
        let under = |folder: &&str| path.starts_with(&format!("{folder}/"));
        let ends = |extension: &&str| path.ends_with(&format!(".{extension}"));
        self.folders.iter().any(under) && self.extensions.iter().any(ends) && !self.except.contains(&path)
    }

    fn broken_by(&self, path: &str, text: &str) -> Vec<String> {
        let lines = code(text).filter(|(_, line)| self.words.iter().any(|word| line.contains(word)));
        lines.map(|(number, line)| format!("{path}:{number}: {}: {}", self.rule, line.trim())).collect()
    }
}

/// I3: of the reference, the CUDA path sees `contract`.
fn beyond_the_contract(path: &str, text: &str) -> Vec<String> {
    let beyond = |line: &str| line.replace("reference::contract", "").contains("reference::");
    let lines = code(text).filter(|(_, line)| beyond(line));
    let rule = "I3: the CUDA path sees `reference::contract` only; if it is a type or a table, export it there";
    lines.map(|(number, line)| format!("{path}:{number}: {rule}: {}", line.trim())).collect()
}

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

/// I7: what a kernel or a header includes beside `headers`.
fn foreign_includes(path: &str, text: &str, headers: &[&str]) -> Vec<String> {
    let includes = code(text).filter_map(|(number, line)| Some((number, line.trim().strip_prefix("#include")?.trim())));
    let known = |name: &str| headers.iter().any(|header| name == format!("\"{header}\""));
    let stands_in = |name: &str| path.ends_with("/simt.cuh") && name == "\"simt_host.h\"";
    let foreign = includes.filter(|(_, name)| !known(name) && !stands_in(name));
    let rule = "I7: a kernel includes files of optimized/kernels/include only";
    foreign.map(|(number, name)| format!("{path}:{number}: {rule}, not {name}")).collect()
}

/// What each member may use of the others.
const MAY_USE: [(&str, &[&str]); 8] = [
    ("reference", &[]),
    ("fixtures", &["reference"]),
    ("optimized", &["reference"]),
    ("tools", &["reference", "fixtures", "optimized"]),
    ("tools/python", &["reference", "fixtures", "tools"]),
    ("tools/rust", &["reference", "fixtures", "tools"]),
    ("tests", &["reference", "fixtures", "optimized", "tools", "parity", "fuzz"]),
    ("tests/fuzz", &["reference", "fixtures", "tools"]),
];

/// I8: crates with one home, beside which the tests may use them.
const HOMES: [(&str, &str); 9] = [
    ("cudarc", "optimized"),
    ("clap", "tools"),
    ("miette", "tools"),
    ("proptest", "tests"),
    ("insta", "tests"),
    ("safetensors", "fixtures"),
    ("npyz", "fixtures"),
    ("image", "fixtures"),
    ("pyo3", "tools/python"),
];

/// What is wrong with a member's manifest.
fn manifest_faults(member: &str, manifest: &str) -> Vec<String> {
    let may_use = MAY_USE.iter().find(|(user, _)| *user == member).map_or(&[][..], |(_, used)| used);
    let mut found = Vec::new();
    let mut section = "";
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            section = line;
        }
        let Some((name, rest)) = line.split_once(['.', '=', ' ']) else { continue };
        if !section.ends_with("dependencies]") {
            continue;
        }
        if !rest.contains("workspace = true") {
            found.push(format!("{member}: state the version of {name} in the workspace's manifest only"));
        }
        if (MEMBERS.contains(&name) || ["fuzz", "parity"].contains(&name)) && !may_use.contains(&name) {
            found.push(format!("I1 to I4: {member} may not use {name}"));
        }
        if let Some((_, home)) =
            HOMES.iter().find(|(housed, home)| *housed == name && ![*home, "tests"].contains(&member))
        {
            found.push(format!("I8: {name} belongs to {home}, not to {member}"));
        }
    }
    if !manifest.contains("[lints]\nworkspace = true") {
        found.push(format!("{member}: take the workspace's lints"));
    }
    found
}

/// Lines that a file may have.
fn limit(path: &str) -> usize {
    if KERNELS.iter().any(|extension| path.ends_with(&format!(".{extension}"))) { 300 } else { 400 }
}

fn too_long(path: &str, text: &str) -> Option<String> {
    let (lines, limit) = (text.lines().count(), limit(path));
    (lines > limit).then(|| format!("{path} has {lines} lines, more than {limit}; divide it by subject"))
}

/// The files that may declare a Rust source as a module; none if it is a crate's root.
fn parents(path: &str, manifest: &str) -> Vec<String> {
    let (folder, name) = path.rsplit_once('/').expect("sources are in folders");
    let (_, in_member) = path.split_once('/').expect("sources are in members");
    let roots = ["lib.rs", "main.rs"];
    let is_top = folder.ends_with("/src") || folder == "tests/tests";
    let is_program = roots.contains(&name) && is_top || folder.ends_with("/src/bin");
    if is_program || name == "build.rs" || manifest.contains(&format!("path = \"{in_member}\"")) {
        return Vec::new();
    }
    if is_top { roots.map(|root| format!("{folder}/{root}")).to_vec() } else { vec![format!("{folder}.rs")] }
}

/// All sources below the members, with their text.
fn sources(extensions: &[&str]) -> Vec<(String, String)> {
    let paths = MEMBERS.iter().flat_map(|member| repository::files(member, extensions));
    paths.map(|path| (path.clone(), repository::text(&path).expect("a source is text"))).collect()
}

fn demand_none(found: &[String]) {
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn no_source_has_what_it_may_not() {
    let sources = sources(&["rs", "cu", "cuh"]);
    for ban in &BANS {
        let concerned = sources.iter().filter(|(path, _)| ban.concerns(path));
        let found: Vec<String> = concerned.flat_map(|(path, text)| ban.broken_by(path, text)).collect();
        demand_none(&found);
    }
}

#[test]
fn the_cuda_path_sees_the_contract_only() {
    let sources = sources(RUST);
    let concerned = sources.iter().filter(|(path, _)| path.starts_with("optimized/"));
    demand_none(&concerned.flat_map(|(path, text)| beyond_the_contract(path, text)).collect::<Vec<_>>());
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
fn kernels_include_their_own_headers_only() {
    let headers = repository::files("optimized/kernels/include", &["cuh"]);
    let names: Vec<&str> = headers.iter().filter_map(|path| path.rsplit('/').next()).collect();
    let sources = sources(KERNELS);
    let found: Vec<String> = sources.iter().flat_map(|(path, text)| foreign_includes(path, text, &names)).collect();
    demand_none(&found);
}

#[test]
fn crates_use_what_they_may() {
    let manifest = |member: &str| repository::text(&format!("{member}/Cargo.toml")).expect("a member has a manifest");
    let found: Vec<String> = MAY_USE.iter().flat_map(|(user, _)| manifest_faults(user, &manifest(user))).collect();
    demand_none(&found);
}

/// So that `#[expect(unsafe_code, reason = …)]` stands at each place, or the build fails.
#[test]
fn unsafe_code_is_denied_and_excused_one_by_one() {
    let workspace = repository::text("Cargo.toml").expect("the workspace has a manifest");
    for lint in ["unsafe_code = \"deny\"", "undocumented_unsafe_blocks = \"deny\"", "allow_attributes_without_reason"] {
        assert!(workspace.contains(lint), "state {lint} in the workspace's lints");
    }
    let excused =
        sources(RUST).into_iter().filter(|(_, text)| code(text).any(|(_, line)| line.contains("expect(unsafe_code")));
    let homes = [
        "optimized/src/",
        "fixtures/src/mapped.rs",
        "tools/python/src/tensors.rs",
        "tests/src/device.rs",
        "tests/tests/layering.rs",
    ];
    let found: Vec<String> =
        excused.map(|(path, _)| path).filter(|path| !homes.iter().any(|home| path.starts_with(home))).collect();
    assert_eq!(
        found,
        Vec::<String>::new(),
        "unsafe code is the CUDA path's, and of what maps files or looks at Python's memory"
    );
}

#[test]
fn no_file_is_a_book() {
    let sources = sources(&["rs", "cu", "cuh", "h", "cpp", "py"]);
    demand_none(&sources.iter().filter_map(|(path, text)| too_long(path, text)).collect::<Vec<_>>());
}

/// A source that no module declares is never compiled, and a test in it never run.
#[test]
fn no_source_is_forgotten() {
    let mut found = Vec::new();
    for (path, _) in sources(RUST) {
        let member = path.split('/').next().expect("sources are in members");
        let manifest = repository::text(&format!("{member}/Cargo.toml")).expect("a member has a manifest");
        let declaration = format!("mod {};", stem(&path));
        let declares = |text: String| code(&text).any(|(_, line)| line.trim_end().ends_with(&declaration));
        let parents = parents(&path, &manifest);
        if !parents.is_empty() && !parents.iter().filter_map(|parent| repository::text(parent)).any(declares) {
            found.push(format!("{path}: declare it in {}", parents.join(" or ")));
        }
    }
    demand_none(&found);
}

#[test]
fn each_ban_finds_each_of_its_words() {
    for ban in &BANS {
        for word in ban.words {
            let text = format!("// {word}\nlet a = {word}b);\n");
            assert_eq!(ban.broken_by("a/b.rs", &text).len(), 1, "{}: {word}", ban.rule);
        }
        let path = format!("{}/a.{}", ban.folders[0], ban.extensions[0]);
        assert!(
            ban.concerns(&path) && !ban.concerns("elsewhere/a.rs") && ban.except.iter().all(|path| !ban.concerns(path))
        );
    }
}

#[test]
fn each_rule_finds_what_breaks_it() {
    let contract = "use reference::contract::Rope;\n";
    assert_eq!(beyond_the_contract("a.rs", contract), Vec::<String>::new());
    assert_eq!(
        beyond_the_contract("a.rs", "use reference::ops::rope::Rope;\nuse reference::{Real, contract};\n").len(),
        2
    );

    let all = ["norm", "rms_norm", "rope", "qk_norm"];
    let uses = |op, text| used_operators("a.rs", op, text, &all).len();
    assert_eq!(uses("rope", "use super::rms_norm::RmsNorm;\n"), 1);
    assert_eq!(uses("rope", "use crate::ops::norm::Norm; let x = super::qk_norm::f();\n"), 2);
    assert_eq!(uses("qk_norm", "use super::rms_norm::RmsNorm;\n// rope::rope\nlet a_rope::b;\n"), 0);

    let includes = "#include \"simt.cuh\"\n#include <cuda.h>\n  #include \"simt_host.h\"\n";
    assert_eq!(foreign_includes("a/x.cu", includes, &["simt.cuh"]).len(), 2);
    assert_eq!(foreign_includes("a/simt.cuh", includes, &["simt.cuh"]).len(), 1);

    let end = "[lints]\nworkspace = true\n";
    let faults =
        |member, dependencies: &str| manifest_faults(member, &format!("[dependencies]\n{dependencies}\n{end}")).len();
    assert_eq!(faults("optimized", "reference.workspace = true\ncudarc = { workspace = true }"), 0);
    assert_eq!(faults("reference", "fixtures.workspace = true"), 1);
    assert_eq!(faults("tools", "tests.workspace = true\ncudarc.workspace = true"), 2);
    assert_eq!(faults("tests", "half = \"2\""), 1);
    assert_eq!(manifest_faults("fixtures", "[dev-dependencies]\ncudarc.workspace = true\n").len(), 2);
    assert_eq!(faults("tests", "cudarc.workspace = true"), 0);

    assert_eq!(too_long("a.rs", &"\n".repeat(400)), None);
    assert!(too_long("a.rs", &"\n".repeat(401)).is_some() && too_long("a.cu", &"\n".repeat(301)).is_some());

    assert_eq!(parents("tests/tests/ops/rope/by_hand.rs", ""), ["tests/tests/ops/rope.rs"]);
    assert_eq!(parents("tests/tests/cli.rs", ""), ["tests/tests/lib.rs", "tests/tests/main.rs"]);
    for root in ["tools/src/main.rs", "tests/src/program.rs", "optimized/build.rs", "tests/fuzz/src/bin/npy.rs"] {
        assert_eq!(parents(root, "path = \"src/program.rs\""), Vec::<String>::new(), "{root}");
    }
}
