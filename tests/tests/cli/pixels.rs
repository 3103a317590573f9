//! `--pixels`, `--image`, `--video`: what a prompt shows must fit the model and the prompt.

use std::path::Path;

use fixtures::Tensor;
use fixtures::activations::dump::Dump;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::writer::DumpWriter;
use reference::Storage;

use super::{Ran, assert_refused, case, parity};

/// The pixels of a patch of the case with images.
const WIDTH: usize = 3 * 2 * 4 * 4;

/// Values of patches, and grids of images.
fn write(path: &Path, rows: usize, width: usize, value: f64, grids: &[[usize; 3]]) {
    let mut writer = DumpWriter::create(path).expect("writable");
    let values = vec![value; rows * width];
    let pixels = Tensor::stored(Storage::F32, [rows, width], values).expect("each was given");
    let grids = Tensor::indices_of([grids.len(), 3], grids.iter().flatten().copied()).expect("three each");
    writer.write("pixel_values", &pixels).expect("writable");
    writer.write("image_grid_thw", &grids).expect("writable");
    writer.finish(&Manifest::default()).expect("writable");
}

/// Decodes with pixels of 24 and 32 patches, which the prompt of the case has places for, or with others.
fn decode(rows: usize, width: usize, value: f64, grids: &[[usize; 3]]) -> Ran {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(&folder.path().join("pixels.safetensors"), rows, width, value, grids);
    let (model, tokens) = (case("vision-images-f32").join("model"), case("vision-images-f32").join("case.json"));
    let tokens = format!("@{}", tokens.display());
    let model = model.display().to_string();
    parity(folder.path(), &["decode", &model, "-n", "2", "--tokens", &tokens, "--pixels", "pixels.safetensors"])
}

const GRIDS: [[usize; 3]; 2] = [[1, 4, 6], [1, 8, 4]];

#[test]
fn what_fits_is_seen() {
    let ran = decode(56, WIDTH, 0.25, &GRIDS);
    assert_eq!(ran.code, Some(0), "{ran}");
    let other = decode(56, WIDTH, -0.75, &GRIDS);
    assert!(other.to_string() != ran.to_string(), "{ran}");
}

#[test]
fn pixels_that_do_not_fit_are_refused() {
    let grid = "media C2: grid = [1, 3, 8], expected height and width multiples of 2";
    assert_refused(&decode(56, WIDTH, 0.5, &[[1, 3, 8], [1, 8, 4]]), &[grid, "belong together"]);
    let rows = "media C1: rows of pixels = 55, expected 56, the patches of the grids";
    assert_refused(&decode(55, WIDTH, 0.5, &GRIDS), &[rows]);
    assert_refused(
        &decode(56, WIDTH, f64::NAN, &GRIDS),
        &["media C3: pixel 0 of patch 0 = NaN, expected a finite number"],
    );
    assert_refused(&decode(56, WIDTH - 1, 0.5, &GRIDS), &["pixel_values is [56, 95], expected [56, 96]"]);
    let places =
        "the prompt has 14 image places (token 5), expected 12: a feature for each 2 × 2 patches of image_grid_thw";
    assert_refused(&decode(48, WIDTH, 0.5, &[[1, 4, 6], [1, 6, 4]]), &[places]);
}

#[test]
fn places_without_pixels_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (model, tokens) = (case("vision-images-f32").join("model"), case("vision-images-f32").join("case.json"));
    let (model, tokens) = (model.display().to_string(), format!("@{}", tokens.display()));
    let ran = parity(folder.path(), &["decode", &model, "--tokens", &tokens]);
    assert_refused(&ran, &["token 5 at position 2 is a place for images, and no pixels are given", "--pixels FILE"]);
    // Without any, the model is one of text.
    let ran = parity(folder.path(), &["decode", &model, "-n", "1", "--tokens", "7,8,9"]);
    assert_eq!(ran.code, Some(0), "{ran}");
}

#[test]
fn models_that_do_not_see_refuse_pixels() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(&folder.path().join("pixels.safetensors"), 4, WIDTH, 0.5, &[[1, 2, 2]]);
    let refused = |model: &str| parity(folder.path(), &["decode", model, "--pixels", "pixels.safetensors"]);
    assert_refused(&refused("m2-gqa3-f32"), &["m2-gqa3-f32 does not see: M2 reads text alone"]);
    let blind = "m3-gqa4-f32 does not see: its checkpoint has no tensor of a vision tower";
    assert_refused(&refused("m3-gqa4-f32"), &[blind]);
}

/// Chunks of a prompt would each have a part of the places.
#[test]
fn a_prompt_that_shows_something_is_read_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for backend in ["reference", "optimized"] {
        let options = ["decode", "vision-images-f32", "--chunk", "4", "--device", "emulated", "--backend", backend];
        assert_refused(&parity(folder.path(), &options), &["--chunk 4: the prompt shows images or videos"]);
    }
}

/// What a vision tower computes alone is of no prompt: its pixels say all.
#[test]
fn a_tower_alone_needs_no_tokens() {
    let golden = case("vision-images-f32");
    let (model, pixels) = (golden.join("model").display().to_string(), golden.join("pixels.safetensors"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let dump = Dump::open(&golden.join("expected.safetensors")).expect("it is there");
    let mut writer = DumpWriter::create(&folder.path().join("tower.safetensors")).expect("writable");
    for name in dump.names().filter(|name| name.starts_with("model.vision_tower.")) {
        writer.write(name, &dump.tensor(name).expect("it is there")).expect("writable");
    }
    writer.finish(&Manifest::default()).expect("writable");
    let shown = pixels.display().to_string();
    let ran = parity(folder.path(), &["verify", &model, "tower.safetensors", "--pixels", &shown]);
    assert_eq!(ran.code, Some(0), "{ran}");
    assert!(ran.stdout.contains("PASS"), "{ran}");
    let unknown = parity(folder.path(), &["verify", &model, "tower.safetensors"]);
    assert_refused(&unknown, &["no tokens are known"]);
}
