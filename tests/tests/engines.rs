//! What vLLM, `SGLang`, llama.cpp and MLX wrote, `fixtures/golden-engines`, judged with nothing said but the model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fixtures::activations::dump::Dump;
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
