//! Image and video files as pixels of patches.

use std::path::{Path, PathBuf};

use fixtures::folder::Folder;
use fixtures::images::Processor;
use fixtures::images::patches::Patches;
use ndarray::{Axis, concatenate};
use reference::Grid;
use reference::config::Vision;
use reference::media::Pixels;

use crate::failure::Failure;
use crate::session::model::Model;

/// Images and videos, by the parameters in the model's folder; a built-in case's are the released ones.
pub(super) fn read(
    model: &Model,
    vision: &Vision,
    images: &[PathBuf],
    videos: &[PathBuf],
) -> Result<[Option<Pixels>; 2], Failure> {
    let processor = match &model.case {
        Some(_) => Processor::default(),
        None => Processor::of_folder(&Folder::at(model.checkpoint.path())?)?,
    };
    let images = pixels(vision, images, |path| Ok(processor.image(path)?))?;
    Ok([images, pixels(vision, videos, |path| Ok(processor.video(path)?))?])
}

/// All files' patches, one file's after another's.
fn pixels(
    vision: &Vision,
    paths: &[PathBuf],
    make: impl Fn(&Path) -> Result<Patches, Failure>,
) -> Result<Option<Pixels>, Failure> {
    let (width, side) = (vision.patch.values(), vision.spatial_merge_size);
    let (mut values, mut grids) = (Vec::with_capacity(paths.len()), Vec::new());
    for path in paths {
        let patches = make(path)?;
        let (columns, merge) = (patches.values.ncols(), patches.merge);
        if (columns, merge) != (width, side) {
            let problem = format!(
                "{}: is cut into patches of {columns} values, {merge} × {merge} to a token, expected {width}, {side} × {side}, \
                 as the model takes them",
                path.display()
            );
            return Err(Failure::new(problem).help("state patch_size and merge_size in preprocessor_config.json"));
        }
        grids.extend(patches.grids.iter().map(|&[t, h, w]| Grid { t, h, w }));
        values.push(patches.values);
    }
    let views: Vec<_> = values.iter().map(|values| values.view()).collect();
    Ok((!paths.is_empty()).then(|| {
        let values = concatenate(Axis(0), &views).expect("all are as wide as the model's patches");
        Pixels { values, grids }
    }))
}
