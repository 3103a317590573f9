//! Each kind of bad file, on every command that reads or writes one: refused in words, with exit code 2, and nothing left.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;

use fixtures::Tensor;
use fixtures::activations::dump::Dump;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::writer::DumpWriter;

use super::bad_input::{configure, model, reweigh};
use super::{Ran, case, listing, parity};

/// A folder with a model, two dumps of it, and its configuration alone.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    model(folder.path());
    for name in ["a.safetensors", "b.safetensors"] {
        fs::copy(case("m2-mha-top1-f32").join("expected.safetensors"), folder.path().join(name)).expect("writable");
    }
    folder
}

/// Runs each command on a folder in which something is bad: it is refused with these words, and leaves no file.
fn refuse(folder: &Path, what: &str, said: &str, commands: &[Vec<&str>]) {
    let before = listing(folder);
    for command in commands {
        let ran = parity(folder, command);
        let told = format!("{what}: {}: {ran}", command.join(" "));
        assert_eq!(ran.code, Some(2), "{told}");
        assert!(ran.says(said) && !ran.stderr.contains("panicked"), "expected \"{said}\": {told}");
        assert_eq!(listing(folder), before, "{told}");
    }
}

/// Words as arguments.
fn typed(commands: &[&'static str]) -> Vec<Vec<&'static str>> {
    commands.iter().map(|command| command.split(' ').collect()).collect()
}

/// Every command that opens a model.
const OF_MODELS: [&str; 7] = [
    "check model --tokens 1,2 --decode 1 --device emulated --json r.json",
    "run model --tokens 1,2 --out dump.npz",
    "verify model a.safetensors --json r.json --html r.html --junit r.xml",
    "diagnose model a.safetensors --json r.json",
    "decode model --tokens 1,2 -n 1 --json r.json",
    "diff a.safetensors b.safetensors --model model --json r.json",
    "show model --json r.json",
];

/// What is wrong with a model, what is said, and how it is made wrong.
type Model = (&'static str, &'static str, fn(&Path));

/// The weights' header, changed as text, as long as it was.
fn rewrite(model: &Path, from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    reweigh(model, |mut bytes| {
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).expect("it is there");
        bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
        bytes
    });
}

const WEIGHTS: [Model; 6] = [
    ("a name twice", "layers.0.self_attn.k_proj.weight: stands in the header more than once", |model| {
        rewrite(model, "layers.0.self_attn.v_proj.weight", "layers.0.self_attn.k_proj.weight");
    }),
    ("cut short", "expected at most the", |model| reweigh(model, |bytes| bytes[..bytes.len() - 5].to_vec())),
    ("empty", "holds 0 bytes, expected a header's length", |model| reweigh(model, |_| Vec::new())),
    (
        "an index of files that are not there",
        "gone.safetensors is not there; tensors that the index places in it: 1",
        |model| {
            let index = r#"{"weight_map": {"model.norm.weight": "gone.safetensors"}}"#;
            fs::write(model.join("model.safetensors.index.json"), index).expect("writable");
        },
    ),
    ("an index that is none", "is no index", |model| {
        fs::write(model.join("model.safetensors.index.json"), "[]").expect("writable");
    }),
    ("no weights", "has no .safetensors file", |model| {
        fs::remove_file(model.join("model.safetensors")).expect("there");
    }),
];

const CONFIGURATIONS: [Model; 8] = [
    ("a window", "sliding_window = 4096, expected null", |model| {
        configure(model, "\"use_cache\": true", "\"sliding_window\": 4096");
    }),
    ("layers without end", "num_hidden_layers = 1000000000, expected at most 4096", |model| {
        configure(model, "\"num_hidden_layers\": 3", "\"num_hidden_layers\": 1000000000");
    }),
    ("experts without end", "3 layers of 1000000000 experts, expected at most 262144 experts in all", |model| {
        configure(model, "\"num_local_experts\": 5", "\"num_local_experts\": 1000000000");
    }),
    ("a matrix without end", "num_attention_heads · head_dim · hidden_size = ", |model| {
        configure(model, "\"head_dim\": 12", "\"head_dim\": 1000000000");
        configure(model, "\"hidden_size\": 52", "\"hidden_size\": 1000000000");
    }),
    ("no integer holds it", "vocab_size = 18446744073709551615, expected a positive integer up to", |model| {
        configure(model, "\"vocab_size\": 211", "\"vocab_size\": 18446744073709551615");
    }),
    ("no JSON", "not JSON", |model| configure(model, "\"hidden_size\"", "hidden_size")),
    ("no UTF-8", "UTF-8", |model| fs::write(model.join("config.json"), b"\xff\xfe").expect("writable")),
    ("empty", "not JSON", |model| fs::write(model.join("config.json"), "").expect("writable")),
];

#[test]
fn bad_models() {
    for (what, said, damage) in WEIGHTS {
        let folder = folder();
        damage(&folder.path().join("model"));
        refuse(folder.path(), what, said, &typed(&OF_MODELS));
    }
    for (what, said, damage) in CONFIGURATIONS {
        let folder = folder();
        damage(&folder.path().join("model"));
        refuse(folder.path(), what, said, &typed(&OF_MODELS));
        refuse(folder.path(), what, said, &typed(&["synth model --out made", "synth model/config.json --out made"]));
    }
}

/// It is a model of a size that is allowed, and no disk has room for it.
#[test]
fn a_model_that_no_disk_holds() {
    let folder = folder();
    configure(&folder.path().join("model"), "\"vocab_size\": 211", "\"vocab_size\": 2000000000");
    configure(&folder.path().join("model"), "\"intermediate_size\": 20", "\"intermediate_size\": 1000000000");
    refuse(folder.path(), "too large", "that are free on its disk", &typed(&["synth model --out made"]));
    let ran = parity(folder.path(), &["show", "model"]);
    assert!(ran.code == Some(2) && ran.says("expected [2000000000, 52]"), "{ran}");
}

/// Every command that reads a dump called bad.*.
const OF_DUMPS: [&str; 6] = [
    "verify model bad --json r.json --html r.html --junit r.xml",
    "diagnose model bad --json r.json",
    "diff bad a.safetensors --json r.json",
    "diff a.safetensors bad --json r.json",
    "show bad --json r.json",
    "decode vision-images-f32 -n 1 --pixels bad --json r.json",
];

/// The good dump's bytes as a NumPy archive.
fn archive(folder: &Path) -> Vec<u8> {
    let path = folder.join("good.npz");
    let mut writer = DumpWriter::create(&path).expect("writable");
    for name in ["model.norm", "model.nurm"] {
        let ones = Tensor::stored(reference::Storage::F32, [17, 52], vec![1.0; 17 * 52]).expect("as many");
        writer.write(name, &ones).expect("writable");
    }
    writer.finish(&Manifest::default()).expect("writable");
    let bytes = fs::read(&path).expect("written");
    fs::remove_file(path).expect("there");
    bytes
}

#[test]
fn bad_dumps() {
    let folder = folder();
    let good = fs::read(folder.path().join("a.safetensors")).expect("there");
    let replaced = |bytes: &[u8], from: &[u8], to: &[u8]| {
        let mut bytes = bytes.to_vec();
        let places: Vec<usize> = (0..bytes.len() - from.len()).filter(|&at| bytes[at..].starts_with(from)).collect();
        assert!(!places.is_empty() && from.len() == to.len());
        for at in places {
            bytes[at..at + to.len()].copy_from_slice(to);
        }
        bytes
    };
    let archive = archive(folder.path());
    let twice = replaced(&good, b"\"model.layers.1.self_attn.q_norm\"", b"\"model.layers.0.self_attn.q_norm\"");
    for (name, said, bytes) in [
        ("bad.safetensors", "model.layers.0.self_attn.q_norm: stands in the header more than once", twice),
        ("bad.safetensors", "expected at most the", good[..good.len() - 5].to_vec()),
        ("bad.safetensors", "holds 0 bytes", Vec::new()),
        (
            "bad.npz",
            "model.norm.npy: stands in the archive more than once",
            replaced(&archive, b"model.nurm", b"model.norm"),
        ),
        ("bad.npz", "is no zip archive", archive[..archive.len() - 5].to_vec()),
        ("bad.npz", "is no zip archive", Vec::new()),
        ("bad.npy", "is no NumPy array", b"half an array".to_vec()),
        ("bad.json", "is no JSON of a dump", b"{\"model.norm\": [0.5".to_vec()),
        ("bad.txt", "is none of .safetensors, .npz, .npy, .pt, .pth, .pkl and .json", b"1.0 2.0".to_vec()),
    ] {
        fs::write(folder.path().join(name), bytes).expect("writable");
        let commands = OF_DUMPS.map(|command| command.replace("bad", name));
        let commands: Vec<Vec<&str>> = commands.iter().map(|command| command.split(' ').collect()).collect();
        refuse(folder.path(), name, said, &commands);
        fs::remove_file(folder.path().join(name)).expect("there");
    }
    refuse(folder.path(), "no dump", "is not there", &typed(&OF_DUMPS[..4]));
    symlink("bad", folder.path().join("bad")).expect("writable");
    refuse(folder.path(), "a link to itself", "leads to nothing, or back to itself", &typed(&OF_DUMPS[..4]));
}

/// What servers give of a prompt.
#[test]
fn log_probabilities_of_some_tokens() {
    let folder = folder();
    let mut writer = DumpWriter::create(&folder.path().join("top.safetensors")).expect("writable");
    let some = Tensor::stored(reference::Storage::F32, [3, 20], vec![-1.5; 60]).expect("as many");
    writer.write("top_logprobs", &some).expect("writable");
    writer.finish(&Manifest::default()).expect("writable");
    let run = parity(folder.path(), &["verify", "model", "top.safetensors", "--tokens", "1,2,3"]);
    assert!(run.code == Some(2) && run.says("keep those of the whole vocabulary"), "{run}");
}

/// Values that are the same in any precision are of none: they are compared, and are no run of the model.
#[test]
fn dumps_of_nothing() {
    let folder = folder();
    for (name, value) in [("zero", 0.0), ("infinite", f64::INFINITY)] {
        let file = format!("{name}.safetensors");
        let mut writer = DumpWriter::create(&folder.path().join(&file)).expect("writable");
        let same = Tensor::stored(reference::Storage::F32, [17, 52], vec![value; 17 * 52]).expect("as many");
        writer.write("model.norm", &same).expect("writable");
        writer.finish(&Manifest::default()).expect("writable");
        let tokens: Vec<String> = (0..17).map(|token| token.to_string()).collect();
        let run = parity(folder.path(), &["verify", "model", &file, "--tokens", &tokens.join(",")]);
        assert!(run.code == Some(1) && run.stdout.contains("every value is 0, infinite or no number"), "{run}");
    }
}

/// The prompt's file and a map of names, wherever they are taken.
#[test]
fn bad_prompts_and_maps() {
    let folder = folder();
    let prompts = [
        "check model --tokens @bad --device emulated --json r.json",
        "run model --tokens @bad --out dump.npz",
        "verify model a.safetensors --tokens @bad --json r.json",
        "diagnose model a.safetensors --tokens @bad --json r.json",
        "decode model --tokens @bad -n 1 --json r.json",
    ];
    let maps = [
        "verify model a.safetensors --names bad --json r.json",
        "diagnose model a.safetensors --names bad --json r.json",
        "diff a.safetensors b.safetensors --model model --names bad --json r.json",
    ];
    refuse(folder.path(), "no file", "bad", &typed(&[&prompts[..], &maps].concat()));
    for text in ["", "{", "{\"tokens\": [1, -2]}", "[[[1]]]", "7"] {
        fs::write(folder.path().join("bad"), text).expect("writable");
        refuse(folder.path(), text, "bad", &typed(&[&prompts[..], &maps].concat()));
    }
}

/// Every command that writes, with `bad` for where to. That none gets as far as its work is seen from what it is to work on,
/// which is not there.
const WRITING: [&str; 11] = [
    "check none --json bad",
    "check none --html bad",
    "verify none --junit bad",
    "verify none --json bad",
    "diagnose none none.npz --json bad",
    "diff none.npz none.npz --json bad",
    "decode none --json bad",
    "show none --json bad",
    "kernels --nvrtc none --json bad",
    "fixtures verify none --json bad",
    "check none --junit bad",
];

/// Those that open what they are to work on before they know what they would write.
const MAKING: [&str; 2] = ["run m2-mha-top1-f32 --out bad.npz", "synth model --out bad"];

#[test]
fn bad_places() {
    let folder = folder();
    let place = |name: &str| folder.path().join(name);
    fs::create_dir(place("full")).expect("writable");
    fs::write(place("full/thesis.txt"), "").expect("writable");
    for name in ["locked", "locked.npz"] {
        fs::write(place(name), "kept").expect("writable");
        let mut mode = fs::metadata(place(name)).expect("there").permissions();
        mode.set_readonly(true);
        fs::set_permissions(place(name), mode).expect("ours");
    }
    symlink("round", place("round")).expect("writable");
    symlink("round.npz", place("round.npz")).expect("writable");
    let _listener = [UnixListener::bind(place("socket")), UnixListener::bind(place("socket.npz"))];
    for (bad, said) in [
        ("missing/x", "missing is no folder"),
        ("full", "full"),
        ("locked", "locked"),
        ("a.safetensors/x", "a.safetensors is no folder"),
        ("round", "round"),
        ("socket", "socket"),
    ] {
        let writing: Vec<String> = WRITING.iter().chain(&MAKING).map(|command| command.replace("bad", bad)).collect();
        let writing = writing.iter().filter(|command| !command.ends_with("full.npz"));
        let commands: Vec<Vec<&str>> = writing.map(|command| command.split(' ').collect()).collect();
        refuse(folder.path(), bad, said, &commands);
    }
    assert_eq!(fs::read(place("locked")).expect("there"), b"kept");
    refuse(
        folder.path(),
        "a folder",
        "is a folder",
        &typed(&["run m2-mha-top1-f32 --out full", "decode none --json full"])[1..],
    );
    refuse(folder.path(), "a folder's name", "is a folder's name", &typed(&["decode none --json new/"]));
    refuse(folder.path(), "standard output", "is standard output", &typed(&["synth model --out -"]));
}

/// The verification goes on: what is wrong is a fault with a place and a value.
#[test]
fn an_expert_that_there_is_not_is_a_fault_with_a_place() {
    for (value, said) in [
        (-1_i64, "chose expert -1 at [3, 0], expected 0 to 4"),
        (1_000_000, "chose expert 1000000 at [3, 0], expected 0 to 4"),
    ] {
        let folder = folder();
        let dump = Dump::open(&folder.path().join("a.safetensors")).expect("it is whole");
        let mut writer = DumpWriter::create(&folder.path().join("bad.safetensors")).expect("writable");
        let site = "model.layers.1.mlp.gate.2";
        for name in dump.names() {
            let tensor = dump.tensor(name).expect("it is listed");
            if name == site {
                let mut chosen = tensor.choices().expect("they are whole");
                chosen[3] = usize::try_from(value).unwrap_or(usize::MAX);
                writer.write(name, &Tensor::indices_of(tensor.shape(), chosen).expect("as many")).expect("writable");
            } else {
                writer.write(name, &tensor).expect("writable");
            }
        }
        writer.finish(dump.manifest().expect("it carries one")).expect("writable");
        let ran: Ran =
            parity(folder.path(), &["verify", "model", "bad.safetensors", "--json", "r.json", "--html", "r.html"]);
        assert_eq!(ran.code, Some(1), "{ran}");
        let report = fs::read_to_string(folder.path().join("r.json")).expect("written");
        let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
        let sites = report["reports"][0]["sites"].as_array().expect("a list");
        let faults: Vec<_> = sites.iter().filter(|site| site["verdict"] == "fault").collect();
        assert_eq!(faults.len(), 1, "{ran}");
        assert_eq!(faults[0]["site"], site, "{ran}");
        assert_eq!(faults[0]["note"], format!("token 3 {said}"), "{ran}");
        assert!(sites.len() == 69 && ran.stdout.contains(said), "{ran}");
        let ran = parity(folder.path(), &["diagnose", "model", "bad.safetensors"]);
        assert_eq!(ran.code, Some(1), "{ran}");
        assert!(ran.stdout.contains(said), "{ran}");
    }
}
