//! Quantized checkpoints that the transformers library made and ran, `fixtures/golden-quantized`.

mod on_device;

use std::path::{Path, PathBuf};

use fixtures::activations::dump::Dump;
use fixtures::checkpoint::Checkpoint;
use fixtures::golden::differences_in;
use fixtures::quantize::quantize;
use ndarray::Array2;
use reference::config::FeedForward;
use reference::matrix::Encoding;
use reference::weights::{Weights, inventory};
use reference::{LayerSite, Site};
use serde::Deserialize;
use tests::repository;
use tools::judge::lens::Lens;
use tools::report::content::Conclusion;
use tools::session::asked::Asked;
use tools::session::dumped::Given;
use tools::session::model::Model;
use tools::session::verify::verify;

/// A dump, as the index lists it.
#[derive(Debug, Deserialize)]
struct Made {
    file: PathBuf,
    case: String,
    of: String,
}

fn folder() -> PathBuf {
    repository::path("fixtures/golden-quantized")
}

fn made() -> Vec<Made> {
    #[derive(Deserialize)]
    struct Index {
        dumps: Vec<Made>,
    }
    let text = std::fs::read_to_string(folder().join("index.json")).expect("it is there");
    let dumps = serde_json::from_str::<Index>(&text).expect("it lists the dumps").dumps;
    assert_eq!(dumps.len(), 3);
    dumps
}

fn open(model: &Path) -> Checkpoint {
    Checkpoint::open(model).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn they_are_as_they_were_made() {
    assert_eq!(differences_in(&folder()).expect("recorded"), []);
}

/// The library takes the weights to bf16, and the correction bias, but not the router's weight: nothing need be said.
#[test]
fn what_was_run_passes() {
    for Made { file, case, .. } in made() {
        let model = Model::open(&folder().join(&case).join("model").display().to_string()).expect("it is whole");
        let dump = Dump::open(&folder().join(file)).expect("it is whole");
        let reports =
            verify(&model, dump, &Given::default(), &Asked::default(), &mut |_| ()).expect("it can be judged");
        let [report] = &reports[..] else { panic!("{case}: one request") };
        assert_eq!(report.conclusion(), Conclusion::Pass, "{case}");
        let precision = report.header.precision.to_string();
        assert!(precision.starts_with("transformers_bf16"), "{case}: {precision}");
        let of_local = report.sites.iter().filter(|site| site.lens == Lens::Local);
        let products =
            of_local.filter(|site| is_projection(site.site) && site.segment.iter().all(|it| *it == site.site));
        let agreements: Vec<_> = products.filter_map(|site| site.twin).collect();
        let (equal, count) = agreements.iter().fold((0, 0), |(e, n), twin| (e + twin.equal, n + twin.count));
        assert!(
            agreements.len() >= 3 * model.checkpoint.config().num_hidden_layers,
            "{case}: {} products",
            agreements.len()
        );
        assert!(equal * 100 >= count * 99, "{case}: {equal} of {count} values are the twin's");
    }
}

/// Whether a value is one product of a quantized weight with what stands before it in the dump.
fn is_projection(site: Site) -> bool {
    matches!(site, Site::Layer(_, LayerSite::QProj | LayerSite::KProj | LayerSite::VProj))
}

/// Each matrix, quantized here, has the library's bytes.
#[test]
fn the_library_quantizes_as_this_does() {
    for Made { case, of, .. } in made() {
        let theirs = open(&folder().join(&case).join("model"));
        let source = open(&repository::path("fixtures/golden-engines/cases").join(of).join("model"));
        let how = theirs.config().quantization.clone().expect("it is quantized");
        let mut compared = 0;
        for (weight, _) in inventory(source.config()) {
            let quantized = theirs.get(weight).expect("there");
            let w: Array2<f32> = source.get(weight).expect("there").dense();
            let Some(scales) = quantized.scales() else {
                assert_eq!(quantized.dense::<f32>(), w, "{case}: {weight} is kept");
                continue;
            };
            let ours = quantize(w.view(), &how);
            assert_eq!(quantized.encoding(), Encoding::E4m3);
            assert!(scales.values.bytes() == ours.scales, "{case}: scales of {weight}");
            assert!(quantized.bytes() == ours.elements, "{case}: elements of {weight}");
            compared += 1;
        }
        let config = theirs.config();
        let experts = |layer: &usize| config.layer(*layer).feed_forward == FeedForward::Experts;
        let networks = (0..config.num_hidden_layers).filter(experts).count() * config.num_local_experts;
        assert!(compared > 4 * config.num_hidden_layers + 3 * networks - 1, "{case}: {compared}");
    }
}
