//! Images and videos of a prompt: the pixels of their patches, and how these lie.

use std::collections::BTreeMap;

use ndarray::{Array2, ArrayView2, Axis, concatenate};
use serde::{Deserialize, Serialize};

use crate::config::Vision;
use crate::error::{ContractError, require};
use crate::grid::{Grid, require_patches};

/// What goes through the vision tower together.
#[derive(Debug, Clone, PartialEq)]
pub struct Pixels {
    /// A row a patch \[N, C·T·P·P\].
    pub values: Array2<f32>,
    /// An image each, or a chunk of a video.
    pub grids: Vec<Grid>,
}

/// Images or videos.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Medium {
    /// Images.
    Image,
    /// Videos, in chunks.
    Video,
}

/// All that a prompt shows, call by call. The tower takes a call's images first, then its videos.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Media {
    images: Option<Pixels>,
    videos: Option<Pixels>,
    /// What calls show that begin at later positions, as in a chat of several turns.
    later: BTreeMap<usize, Media>,
}

/// Passes through the tower at most.
pub const PASSES: usize = 2;

impl Pixels {
    /// C1 to C3: of a tower.
    fn check(&self, vision: &Vision) -> Result<(), ContractError> {
        let (n, rows) = (self.values.nrows(), "rows of pixels");
        require_patches(n, &self.grids, "media C1", rows)?;
        require(n >= 1, "media C1", rows, n, "1 or more")?;
        for grid in &self.grids {
            grid.require_some("media C2")?;
            grid.require_squares(vision.spatial_merge_size, "media C2")?;
        }
        if let Some(((row, column), x)) = self.values.indexed_iter().find(|(_, x)| !x.is_finite()) {
            require(false, "media C3", &format!("pixel {column} of patch {row}"), x, "a finite number")?;
        }
        Ok(())
    }
}

impl Medium {
    /// The token in whose places features of it are put.
    pub fn token(self, vision: &Vision) -> u32 {
        match self {
            Medium::Image => vision.image_token,
            Medium::Video => vision.video_token,
        }
    }
}

impl Media {
    /// Images, videos or both, of a tower.
    pub fn new(vision: &Vision, images: Option<Pixels>, videos: Option<Pixels>) -> Result<Self, ContractError> {
        images.iter().chain(&videos).try_for_each(|pixels| pixels.check(vision))?;
        Ok(Media { images, videos, later: BTreeMap::new() })
    }

    /// The same where a call that begins at a later position shows something, too.
    #[must_use]
    pub fn then(mut self, first: usize, media: Media) -> Self {
        self.later.insert(first, media);
        self
    }

    /// What the call shows that begins at a position.
    pub fn at(&self, first: usize) -> Option<&Media> {
        if first == 0 { Some(self).filter(|media| media.passes().next().is_some()) } else { self.later.get(&first) }
    }

    /// What each call shows that shows anything, in their order.
    pub fn calls(&self) -> impl Iterator<Item = &Media> {
        self.at(0).into_iter().chain(self.later.values())
    }

    /// The same as one call shows it that reads all.
    #[must_use]
    pub fn together(&self) -> Self {
        let all = |of: fn(&Media) -> Option<&Pixels>| {
            let parts: Vec<&Pixels> = self.calls().filter_map(of).collect();
            let values: Vec<ArrayView2<'_, f32>> = parts.iter().map(|pixels| pixels.values.view()).collect();
            let grids = parts.iter().flat_map(|pixels| pixels.grids.iter().copied()).collect();
            (!parts.is_empty())
                .then(|| Pixels { values: concatenate(Axis(0), &values).expect("all are patches"), grids })
        };
        let (images, videos) = (all(|media| media.images.as_ref()), all(|media| media.videos.as_ref()));
        Media { images, videos, later: BTreeMap::new() }
    }

    /// What goes through the tower in the first call, pass by pass.
    pub fn passes(&self) -> impl Iterator<Item = (Medium, &Pixels)> {
        let images = self.images.iter().map(|pixels| (Medium::Image, pixels));
        images.chain(self.videos.iter().map(|pixels| (Medium::Video, pixels)))
    }

    /// Patches of each of these passes.
    pub fn patches(&self) -> [usize; PASSES] {
        let mut patches = [0; PASSES];
        for (pass, (_, pixels)) in self.passes().enumerate() {
            patches[pass] = pixels.values.nrows();
        }
        patches
    }
}
