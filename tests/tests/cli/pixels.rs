//! `--pixels`, `--image`, `--video`: what a prompt shows must fit the model and the prompt.

use std::fs;
use std::path::Path;

use fixtures::Tensor;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::writer::DumpWriter;
use fixtures::golden::Golden;
use reference::Storage;
use tests::repository;

use super::{Ran, case, parity};

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

fn assert_refused(ran: &Ran, words: &[&str]) {
    assert_eq!(ran.code, Some(2), "{ran}");
    for words in words {
        assert!(ran.says(words), "{words}: {ran}");
    }
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
    assert_refused(&ran, &["token 5 at position 2 is the place of an image, and no pixels are given", "--pixels FILE"]);
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

#[test]
fn the_cuda_path_does_not_see() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = parity(folder.path(), &["decode", "vision-images-f32", "--backend", "optimized", "--device", "emulated"]);
    assert_refused(&ran, &["the CUDA path does not see: its model is the text model alone", "--backend reference"]);
    assert!(Golden::embedded().case("vision-images-f32").expect("there").pixels().expect("readable").is_some());
}

/// A picture of 83 × 61 pixels and a video of 11 frames.
const PICTURE: &str = "odd/image.png";
const VIDEO: &str = "video/frames";

/// A model of 4 × 4 pixels a patch, whose folder says how pictures are cut, and a prompt with so many places for images
/// and videos, and so many tokens beside.
fn shown(options: &[&str], places: [usize; 2], stated: bool) -> Ran {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let model = folder.path().join("model");
    fs::create_dir(&model).expect("writable");
    for file in ["config.json", "model.safetensors"] {
        fs::copy(case("vision-images-f32").join("model").join(file), model.join(file)).expect("writable");
    }
    if stated {
        let processor = r#"{"patch_size": 4, "size": {"shortest_edge": 64, "longest_edge": 4096}}"#;
        fs::write(model.join("preprocessor_config.json"), processor).expect("writable");
    }
    let tokens = [vec!["9"; 2], vec!["5"; places[0]], vec!["8"], vec!["6"; places[1]], vec!["7"]].concat().join(",");
    parity(folder.path(), &[&["decode", "model", "-n", "2", "--tokens", &tokens], options].concat())
}

fn golden(picture: &str) -> String {
    repository::path("fixtures/golden-images").join(picture).display().to_string()
}

/// `61 × 83` is nearest to 64 × 80 in eights, which is more than 4096: β = √(61·83/4096) leaves 48 × 72, 54 places.
#[test]
fn a_picture_is_its_pixels() {
    let picture = golden(PICTURE);
    let ran = shown(&["--image", &picture], [54, 0], true);
    assert_eq!(ran.code, Some(0), "{ran}");
    let twice = shown(&["--image", &picture, &picture], [108, 0], true);
    assert_eq!(twice.code, Some(0), "{twice}");
    assert!(twice.to_string() != ran.to_string(), "{ran}");
}

#[test]
fn files_that_do_not_fit_are_refused() {
    let (picture, video) = (golden(PICTURE), golden(VIDEO));
    let places = "the prompt has 53 image places (token 5), expected 54";
    assert_refused(&shown(&["--image", &picture], [53, 0], true), &[places]);
    assert_refused(&shown(&["--video", &video], [0, 1], true), &["the prompt has 1 video places (token 6)"]);
    let cut = "is cut into patches of 1176 values, 2 × 2 to a token, expected 96, 2 × 2, as the model takes them";
    assert_refused(&shown(&["--image", &picture], [54, 0], false), &[cut, "preprocessor_config.json"]);
    assert_refused(&shown(&["--image", &video], [54, 0], true), &["is a folder, expected an image"]);
    let both = shown(&["--image", &picture, "--pixels", "pixels.safetensors"], [54, 0], true);
    assert_refused(&both, &["cannot be used with"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = parity(folder.path(), &["decode", "m2-gqa3-f32", "--image", &picture]);
    assert_refused(&ran, &["does not see: M2 reads text alone"]);
}
