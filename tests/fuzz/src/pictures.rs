//! Images, videos, and what a model's folder says of them.

use std::fs;
use std::io::Write;
use std::path::Path;

use fixtures::Error;
use fixtures::folder::Folder;
use fixtures::images::Processor;
use fixtures::images::patches::Patches;
use tempfile::NamedTempFile;

/// Three levels of red, green and blue: a PNG of 29 × 31 pixels.
const PICTURE: &[u8] = include_bytes!("../corpus/image/grey.png");

/// A PNG, JPEG or GIF, as the released model takes it.
pub fn image(bytes: &[u8]) {
    patches(bytes, |path| Processor::default().image(path));
}

/// A GIF as a video, of few frames: each is as large as the first, however few bytes it has.
pub fn video(bytes: &[u8]) {
    let mut processor = Processor::default();
    processor.video.most_frames = 4;
    patches(bytes, |path| processor.video(path));
}

/// The `preprocessor_config.json` of a model, and an image that is taken as it says.
pub fn preprocessor(bytes: &[u8]) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("preprocessor_config.json"), bytes).expect("writable");
    if let Ok(processor) = Processor::of_folder(&Folder::Disk(folder.path().to_owned())) {
        patches(PICTURE, |path| processor.image(path));
    }
}

/// Makes patches of a file, whose grids must count them.
fn patches(bytes: &[u8], make: impl Fn(&Path) -> Result<Patches, Error>) {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(bytes).expect("writable");
    match make(file.path()) {
        Ok(patches) => {
            let counted: usize = patches.grids.iter().map(|grid| grid.iter().product::<usize>()).sum();
            assert_eq!(counted, patches.values.nrows(), "{:?}", patches.grids);
        }
        Err(error) => assert!(!error.to_string().is_empty() && !error.help().is_empty()),
    }
}
