//! `--image` and `--video`: pictures are cut into the pixels that the prompt has places for.

use std::fs;
use std::path::Path;

use fixtures::Tensor;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::writer::DumpWriter;
use fixtures::folder::Folder;
use fixtures::images::Processor;
use fixtures::images::patches::Patches;
use reference::Storage;
use tempfile::TempDir;
use tests::repository;

use super::{Ran, assert_refused, case, parity};

/// How pictures are cut into the model's patches.
const PROCESSOR: &str = r#"{"patch_size": 4, "size": {"shortest_edge": 64, "longest_edge": 4096}}"#;

/// A picture of 83 × 61 pixels and a video of 11 frames.
const PICTURE: &str = "odd/image.png";
const VIDEO: &str = "video/frames";

/// A model of 4 × 4 pixels a patch, whose folder says how pictures are cut, and a prompt with so many places for images
/// and videos, and so many tokens beside.
fn shown(options: &[&str], places: [usize; 2], stated: bool) -> Ran {
    shown_in(&tempfile::tempdir().expect("a temporary folder"), "decode", options, places, stated)
}

/// The same before another command than `decode`.
fn told(command: &str, options: &[&str], places: [usize; 2]) -> Ran {
    shown_in(&tempfile::tempdir().expect("a temporary folder"), command, options, places, true)
}

fn shown_in(folder: &TempDir, command: &str, options: &[&str], places: [usize; 2], stated: bool) -> Ran {
    let model = folder.path().join("model");
    fs::create_dir(&model).expect("writable");
    for file in ["config.json", "model.safetensors"] {
        fs::copy(case("vision-images-f32").join("model").join(file), model.join(file)).expect("writable");
    }
    if stated {
        fs::write(model.join("preprocessor_config.json"), PROCESSOR).expect("writable");
    }
    let tokens = [vec!["9"; 2], vec!["5"; places[0]], vec!["8"], vec!["6"; places[1]], vec!["7"]].concat().join(",");
    parity(folder.path(), &[&[command, "model", "--tokens", &tokens], options].concat())
}

fn golden(picture: &str) -> String {
    repository::path("fixtures/golden-images").join(picture).display().to_string()
}

fn processor() -> Processor {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("preprocessor_config.json"), PROCESSOR).expect("writable");
    Processor::of_folder(&Folder::Disk(folder.path().to_owned())).expect("good parameters")
}

/// What the decode of a prompt with so many copies of the picture, and the video or not, prints of its pixels in a file.
fn of_pixels(copies: usize, video: bool, places: [usize; 2]) -> Ran {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let processor = processor();
    let mut writer = DumpWriter::create(&folder.path().join("pixels.safetensors")).expect("writable");
    let mut put = |names: [&str; 2], copies: usize, made: Patches| {
        let (rows, width) = made.values.dim();
        let values = (0..copies).flat_map(|_| &made.values).map(|&x| f64::from(x));
        let values = Tensor::stored(Storage::F32, [copies * rows, width], values).expect("each is there");
        let grids = (0..copies).flat_map(|_| made.grids.iter().flatten().copied());
        let grids = Tensor::indices_of([copies * made.grids.len(), 3], grids).expect("three each");
        writer.write(names[0], &values).expect("writable");
        writer.write(names[1], &grids).expect("writable");
    };
    if copies > 0 {
        let made = processor.image(Path::new(&golden(PICTURE))).expect("a good picture");
        put(["pixel_values", "image_grid_thw"], copies, made);
    }
    if video {
        let made = processor.video(Path::new(&golden(VIDEO))).expect("a good video");
        put(["pixel_values_videos", "video_grid_thw"], 1, made);
    }
    writer.finish(&Manifest::default()).expect("writable");
    shown_in(&folder, "decode", &["--pixels", "pixels.safetensors"], places, true)
}

/// `61 × 83` is nearest to 64 × 80 in eights, which is more than 4096: β = √(61·83/4096) leaves 48 × 72, 54 places.
#[test]
fn pictures_are_their_pixels() {
    let (picture, video) = (golden(PICTURE), golden(VIDEO));
    let made = processor().video(Path::new(&video)).expect("a good video");
    let of_video = made.placeholders().iter().sum();
    let same = |options: &[&str], copies: usize, video: bool, places: [usize; 2]| {
        let ran = shown(options, places, true);
        assert_eq!(ran.code, Some(0), "{options:?}: {ran}");
        assert_eq!(ran.stdout, of_pixels(copies, video, places).stdout, "{options:?}");
        ran.stdout
    };
    let once = same(&["--image", &picture], 1, false, [54, 0]);
    let twice = same(&["--image", &picture, &picture], 2, false, [108, 0]);
    let moving = same(&["--video", &video], 0, true, [0, of_video]);
    let both = same(&["--image", &picture, "--video", &video], 1, true, [54, of_video]);
    assert!(once != twice && moving != both && once != both, "each shows something else");
}

/// The tokens that a decode prints.
fn decoded(ran: &Ran) -> Vec<u32> {
    ran.stdout.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse().ok()).collect()
}

/// Every value on the way is within its bound, and the tokens are the same; of the video three frames, so that it has
/// two temporal patches, the last of which a single frame fills.
#[test]
fn both_backends_see_the_same() {
    let frames = tempfile::tempdir().expect("a temporary folder");
    for name in (1..=3).map(|number| format!("frame{number}.png")) {
        fs::copy(Path::new(&golden(VIDEO)).join(&name), frames.path().join(&name)).expect("writable");
    }
    let of_video = processor().video(frames.path()).expect("a good video").placeholders().iter().sum();
    let video = frames.path().display().to_string();
    let run = |command: &str, more: &[&str]| {
        let options = ["--device", "emulated", "--image", &golden(PICTURE), "--video", &video];
        let ran = told(command, &[&options, more].concat(), [54, of_video]);
        assert_eq!(ran.code, Some(0), "{ran}");
        ran
    };
    run("check", &["--decode", "3"]);
    let [reference, optimized] =
        ["reference", "optimized"].map(|backend| decoded(&run("decode", &["-n", "4", "--backend", backend])));
    assert_eq!((reference.len(), &reference), (4, &optimized));
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
