//! What vLLM, `SGLang`, llama.cpp and MLX wrote, `fixtures/golden-engines`, judged with nothing said but the model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fixtures::activations::dump::Dump;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::writer::DumpWriter;
use fixtures::golden::differences_in;
use fixtures::golden::engines::ran;
use tests::repository;
use tools::judge::lens::Lens;
use tools::judge::verdict::Verdict;
use tools::report::content::{Conclusion, Report};
use tools::session::asked::Asked;
use tools::session::dumped::Given;
use tools::session::model::Model;
use tools::session::pixels::Shown;
use tools::session::verify::verify;

/// Engines, by their folders.
const ENGINES: [&str; 5] = ["llama.cpp", "mlx-lm", "mlx-vlm", "sglang", "vllm"];

fn folder(name: &str) -> PathBuf {
    repository::path("fixtures/golden-engines").join(name)
}

fn reports(dump: &Path, case: &Path) -> Vec<Report> {
    let model = Model::open(&case.join("model").display().to_string()).expect("it is whole");
    let dump = Dump::open(dump).expect("it is whole");
    let sees = dump.names().any(|name| name.contains("vision_tower"));
    let pixels = sees.then(|| case.join("pixels.safetensors"));
    let given = Given { shown: Shown { pixels, ..Shown::default() }, ..Given::default() };
    verify(&model, dump, &given, &Asked::default(), &mut |_| ()).expect("it can be judged")
}

#[test]
fn dumps_are_as_they_were_made() {
    for name in ENGINES.iter().chain(&["cases"]) {
        assert_eq!(differences_in(&folder(name)).expect("recorded"), [], "{name}");
    }
}

#[test]
fn right_engines_pass_and_wrong_ones_are_at_fault_where_they_are_wrong() {
    let every = ENGINES.iter().flat_map(|engine| {
        let all = ran(&folder(engine)).expect("they are listed");
        all.into_iter().map(move |made| (engine, made))
    });
    let mut judged = 0;
    for (engine, made) in every {
        let name = format!("{engine}/{}", made.file);
        let reports = reports(&folder(engine).join(&made.file), &folder("cases").join(&made.case));
        let sites = || reports.iter().flat_map(|report| &report.sites);
        assert!(sites().filter(|site| site.lens == Lens::Local).count() >= 15, "{name}: little was compared");
        let faulty = |site: &&tools::judge::verdict::SiteReport| site.verdict == Verdict::Fault;
        let first = sites().find(|site| site.lens == Lens::Local && faulty(site)).map(|site| site.site.to_string());
        assert_eq!(first, made.fault, "{name}");
        let passes = reports.iter().all(|report| report.conclusion() == Conclusion::Pass);
        assert_eq!(passes, made.fault.is_none(), "{name}: {:?}", sites().find(faulty));
        judged += 1;
    }
    assert_eq!(judged, 14, "dumps that were judged");
}

/// llama.cpp rounds what attention reads to f16: its logits alone show that, where it is right, and where it is wrong no precision does.
#[test]
fn logits_alone() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let path = temporary.path().join("dump.safetensors");
    for made in ran(&folder("llama.cpp")).expect("they are listed") {
        let whole = Dump::open(&folder("llama.cpp").join(&made.file)).expect("it is whole");
        let mut writer = DumpWriter::create(&path).expect("writable");
        for name in whole.names().filter(|name| name.ends_with("result_output")) {
            writer.write(name, &whole.tensor(name).expect("it is listed")).expect("writable");
        }
        writer.finish(&Manifest { producer: None, ..whole.manifest().expect("it has one").clone() }).expect("writable");
        let reports = reports(&path, &folder("cases").join(&made.case));
        let [report] = &reports[..] else { panic!("{}: {} requests", made.file, reports.len()) };
        let is_right = made.fault.is_none();
        let (conclusion, precision) = (report.conclusion(), report.header.precision.to_string());
        let expected = if is_right { Conclusion::Pass } else { Conclusion::Fail };
        assert_eq!((conclusion, precision.contains("llama_cpp")), (expected, is_right), "{}: {precision}", made.file);
    }
}

#[test]
fn every_engine_has_a_maker() {
    let tools = repository::path("tools/engines");
    let text = std::fs::read_to_string(tools.join("engines.json")).expect("it is there");
    let listed: BTreeMap<String, BTreeMap<String, String>> = serde_json::from_str(&text).expect("a list of engines");
    assert_eq!(listed.keys().map(String::as_str).collect::<Vec<_>>(), ENGINES);
    for engine in listed.values() {
        for file in ["script", "requirements"] {
            assert!(tools.join(&engine[file]).is_file(), "{}", engine[file]);
        }
    }
}
