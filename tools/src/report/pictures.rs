//! What a prompt shows, as pictures: its pixels, and what is said of its patches, where these lie.

use fixtures::images::encode::png;
use ndarray::{Array2, Array3, ArrayView1, ArrayView2, s};
use reference::Grid;
use reference::config::Vision;
use reference::grid::segments;
use reference::media::{Media, Medium, Pixels};
use serde::{Deserialize, Serialize};

use super::figures::counted;

/// What goes through the vision tower on one pass.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TowerPass {
    /// What it is.
    pub medium: Medium,
    /// How the patches of each image or chunk lie.
    pub grids: Vec<Grid>,
    /// Patches to a side of the square that becomes one feature.
    pub side: usize,
    /// Each image, or first frame of each time of a chunk, as a PNG; a report in JSON has no pictures.
    #[serde(skip)]
    pub pictures: Vec<Vec<u8>>,
}

/// Pixels to the longer side of a picture, at most, unless there are more patches.
const LONGEST: usize = 512;

impl TowerPass {
    /// Pass by pass.
    pub fn of(media: Option<&Media>, vision: Option<&Vision>) -> Vec<TowerPass> {
        let Some((media, vision)) = media.zip(vision) else { return Vec::new() };
        let of_pass = |(medium, pixels): (Medium, &Pixels)| TowerPass {
            medium,
            grids: pixels.grids.clone(),
            side: vision.spatial_merge_size,
            pictures: pictures(pixels, vision),
        };
        media.passes().map(of_pass).collect()
    }

    fn patches(&self) -> usize {
        segments(&self.grids).into_iter().sum()
    }

    /// How many patches of what.
    pub fn told(&self) -> String {
        let of = match (self.medium, self.grids.len()) {
            (Medium::Image, 1) => "an image".to_owned(),
            (Medium::Image, n) => format!("{n} images"),
            (Medium::Video, 1) => "a video".to_owned(),
            (Medium::Video, n) => format!("{n} chunks of videos"),
        };
        format!("{} of {of}", counted(self.patches(), "patch"))
    }

    /// What is said of each patch or of each feature, in as many pictures, where they lie; nothing, if these are neither.
    pub(super) fn laid(&self, rows: &[u8]) -> Vec<Array2<u8>> {
        let (patches, side) = (self.patches(), self.side);
        let (across, order) = match rows.len() {
            n if n == patches => (1, side),
            n if n * side * side == patches => (side, 1),
            _ => return Vec::new(),
        };
        let mut rows = rows.iter();
        let mut laid = Vec::new();
        for grid in &self.grids {
            let grid = Grid { h: grid.h / across, w: grid.w / across, ..*grid };
            let first = laid.len();
            laid.resize(first + grid.t, Array2::zeros((grid.h, grid.w)));
            for ([t, y, x], level) in grid.coordinates(order).zip(&mut rows) {
                laid[first + t][[y, x]] = *level;
            }
        }
        laid
    }
}

/// A PNG of each grid and time: the colours' range is that of all pixels.
fn pictures(pixels: &Pixels, vision: &Vision) -> Vec<Vec<u8>> {
    let range =
        pixels.values.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)));
    let (mut first, mut pictures) = (0, Vec::new());
    for (grid, n) in pixels.grids.iter().zip(segments(&pixels.grids)) {
        let rows = pixels.values.slice(s![first..first + n, ..]);
        first += n;
        pictures.extend((0..grid.t).map(|t| picture(*grid, t, rows, vision, range)));
    }
    pictures
}

/// One time of one grid.
fn picture(grid: Grid, time: usize, rows: ArrayView2<'_, f32>, vision: &Vision, (low, high): (f32, f32)) -> Vec<u8> {
    let patch = vision.patch;
    let sampled = (LONGEST / grid.h.max(grid.w)).clamp(1, patch.side);
    let level = |row: ArrayView1<'_, f32>, [y, x]: [usize; 2], colour: usize| {
        // A picture of another number of colours than three is shown by its first.
        let channel = if patch.channels == 3 { colour } else { 0 };
        let [y, x] = [y, x].map(|at| (2 * at + 1) * patch.side / (2 * sampled));
        let value = row[((channel * patch.frames) * patch.side + y) * patch.side + x];
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 255")]
        let level = (255.0 * (value - low) / (high - low).max(f32::MIN_POSITIVE)).round().clamp(0.0, 255.0) as u8;
        level
    };
    let mut levels = Array3::zeros((grid.h * sampled, grid.w * sampled, 3));
    let patches = rows.rows().into_iter().zip(grid.coordinates(vision.spatial_merge_size));
    for (row, [_, top, left]) in patches.filter(|(_, at)| at[0] == time) {
        let [top, left] = [top, left].map(|at| at * sampled..(at + 1) * sampled);
        let mut square = levels.slice_mut(s![top, left, ..]);
        square.indexed_iter_mut().for_each(|((y, x, colour), to)| *to = level(row, [y, x], colour));
    }
    png(levels.view())
}
