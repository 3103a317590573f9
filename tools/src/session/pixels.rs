//! What a prompt shows: images and videos, or their pixels.

mod files;
mod shared;

use std::path::PathBuf;

use fixtures::activations::dump::Dump;
use ndarray::Array2;
use reference::config::{Config, Vision};
use reference::grid::segments;
use reference::media::{Media, Medium, Pixels};
use reference::{Error, Grid};

use self::shared::{HELP, NAMES, prompts, shared_out};
use crate::failure::Failure;
use crate::session::model::Model;
use crate::session::prompt::Prompt;
use crate::session::rows::RequestRows;

/// The files of what a prompt shows.
#[derive(Debug, Clone, Default)]
pub struct Shown {
    /// Pixels of images and videos, as transformers' processor makes them.
    pub pixels: Option<PathBuf>,
    /// Images in the prompt's order, PNG or JPEG, instead of their pixels.
    pub image: Vec<PathBuf>,
    /// Videos in the prompt's order, a folder of frames or a GIF each.
    pub video: Vec<PathBuf>,
}

impl Shown {
    fn is_empty(&self) -> bool {
        self.pixels.is_none() && self.image.is_empty() && self.video.is_empty()
    }

    /// What the files hold, or a built-in case's own; nothing, where the prompt shows nothing. The prompt must have a
    /// place for each feature, and no other.
    pub fn find(&self, model: &Model, prompt: &Prompt) -> Result<Option<Media>, Failure> {
        fitting(self.media(model, None)?, model, prompt)
    }

    /// The same of each of several requests, and of a request that sees in later calls, too. The prompts have places for all that the
    /// files hold; where none are named, the dump may have pixels.
    pub fn of_each(
        &self,
        model: &Model,
        dump: &Dump,
        asked: &mut [RequestRows],
    ) -> Result<Vec<Option<Media>>, Failure> {
        let vision = model.checkpoint.config().vision.as_ref();
        let has_place = |tokens: &[u32]| vision.is_some_and(|vision| require_no_places(vision, tokens).is_err());
        if let [one] = &*asked
            && !prompts(one).skip(1).any(has_place)
        {
            return Ok(vec![fitting(self.media(model, Some(dump))?, model, &one.prompt)?]);
        }
        match (self.media(model, Some(dump))?, vision) {
            (Some(all), Some(vision)) => shared_out(vision, &all, asked),
            (_, vision) => {
                let unseen = |rows: &RequestRows| {
                    let checked = vision.map_or(Ok(()), |vision| require_no_places(vision, &rows.prompt.tokens));
                    checked.map(|()| None)
                };
                asked.iter().map(unseen).collect()
            }
        }
    }

    /// A place for each feature of what is shown, and no other token: the prompt of a tower that is computed alone.
    pub fn places(&self, model: &Model, dump: &Dump) -> Result<Option<Vec<u32>>, Failure> {
        let (found, vision) = (self.media(model, Some(dump))?, model.checkpoint.config().vision.as_ref());
        Ok(found.zip(vision).map(|(media, vision)| {
            let places = |(medium, pixels): (Medium, &Pixels)| {
                vec![medium.token(vision); pixels.values.nrows() / vision.merged()]
            };
            media.passes().flat_map(places).collect()
        }))
    }

    /// Patches of each image, in the prompts' order.
    pub fn patches_of_images(&self, model: &Model, dump: &Dump) -> Result<Vec<usize>, Failure> {
        let media = self.media(model, Some(dump))?;
        let images = media.iter().flat_map(Media::passes).find(|(medium, _)| *medium == Medium::Image);
        Ok(images.map(|(_, pixels)| segments(&pixels.grids)).unwrap_or_default())
    }

    /// What the files hold, or else a built-in case has, or else a dump.
    fn media(&self, model: &Model, beside: Option<&Dump>) -> Result<Option<Media>, Failure> {
        let config = model.checkpoint.config();
        let Some(vision) = &config.vision else {
            return if self.is_empty() { Ok(None) } else { Err(blind(model, config)) };
        };
        if !self.image.is_empty() || !self.video.is_empty() {
            let [images, videos] = files::read(model, vision, &self.image, &self.video)?;
            return Ok(Some(Media::new(vision, images, videos).map_err(Error::from)?));
        }
        let dump = match (&self.pixels, &model.case) {
            (Some(path), _) => Some(Dump::open(path)?),
            (None, Some(case)) => case.pixels()?,
            (None, None) => beside.filter(|dump| has_pixels(dump)).cloned(),
        };
        let Some(dump) = dump else { return Ok(None) };
        let [images, videos] = NAMES.map(|(_, values, grids, _)| read(&dump, vision, values, grids));
        let path = dump.path().display();
        let media = Media::new(vision, images?, videos?)
            .map_err(|error| Failure::from(Error::from(error)).help(format!("in {path}: {HELP}")))?;
        if media.passes().next().is_none() {
            let problem = format!("{path}: has neither pixel_values nor pixel_values_videos");
            return Err(Failure::new(problem).help(HELP));
        }
        Ok(Some(media))
    }
}

/// What a prompt shows, where it has a place for each feature, and no other.
fn fitting(found: Option<Media>, model: &Model, prompt: &Prompt) -> Result<Option<Media>, Failure> {
    if let Some(vision) = &model.checkpoint.config().vision {
        match &found {
            Some(media) => require_places(vision, media, &prompt.tokens)?,
            None => require_no_places(vision, &prompt.tokens)?,
        }
    }
    Ok(found)
}

/// Whether a dump has pixels of images or videos beside what was computed of them.
fn has_pixels(dump: &Dump) -> bool {
    NAMES.iter().any(|(_, values, grids, _)| named(dump, values).is_some() && named(dump, grids).is_some())
}

/// The tensor with this name, or the only one whose name ends in it, as where inputs and outputs are apart.
fn named<'d>(dump: &'d Dump, of: &str) -> Option<&'d str> {
    dump.find(of).map(|listed| listed.name).or_else(|| dump.ending_in(of))
}

/// Why a model takes no pixels.
fn blind(model: &Model, config: &Config) -> Failure {
    let why = config.architecture.blind;
    Failure::new(format!("images and videos are given, and {} does not see: {why}", model.name))
        .help("leave them out, or name a checkpoint of M3 with its vision tower")
}

/// One medium's pixels, if a file has them.
fn read(dump: &Dump, vision: &Vision, values: &str, grids: &str) -> Result<Option<Pixels>, Failure> {
    let path = dump.path().display();
    let bad = |problem: String| Failure::new(format!("{path}: {problem}")).help(HELP);
    let (values, grids) = match (named(dump, values), named(dump, grids)) {
        (None, None) => return Ok(None),
        (Some(values), Some(grids)) => (values, grids),
        (Some(values), None) => return Err(bad(format!("has {values}, but no {grids}"))),
        (None, Some(grids)) => return Err(bad(format!("has {grids}, but no {values}"))),
    };
    let (pixels, tensor) = (dump.tensor(values)?, dump.tensor(grids)?);
    let width = vision.patch.values();
    let &[rows, columns] = pixels.shape() else {
        return Err(bad(format!("{values} is {:?}, expected [patches, {width}]", pixels.shape())));
    };
    if columns != width {
        return Err(bad(format!("{values} is [{rows}, {columns}], expected [{rows}, {width}]")));
    }
    if !matches!(tensor.shape(), [rows, 3] if *rows > 0) {
        return Err(bad(format!("{grids} is {:?}, expected a row of time, height and width for each", tensor.shape())));
    }
    let sizes = tensor.indices(1 << 32).map_err(|error| bad(format!("{grids}: {error}")))?;
    let grids = sizes.as_chunks().0.iter().map(|&[t, h, w]| Grid { t, h, w }).collect();
    let values = Array2::from_shape_vec((rows, columns), pixels.values()).expect("the shape is its own");
    Ok(Some(Pixels { values, grids }))
}

/// Demands that the prompt has a place for each feature.
fn require_places(vision: &Vision, media: &Media, tokens: &[u32]) -> Result<(), Failure> {
    for (medium, _, grids, name) in NAMES {
        let token = medium.token(vision);
        let places = tokens.iter().filter(|&&other| other == token).count();
        let of_medium = media.passes().find(|(other, _)| *other == medium);
        let features = of_medium.map_or(0, |(_, pixels)| pixels.values.nrows() / vision.merged());
        if places != features {
            let problem = format!(
                "the prompt has {places} {name} places (token {token}), expected {features}: a feature for each {0} × {0} \
                 patches of {grids}",
                vision.spatial_merge_size
            );
            return Err(Failure::new(problem).help(HELP));
        }
    }
    Ok(())
}

/// Demands that a prompt without pixels has no place for any.
fn require_no_places(vision: &Vision, tokens: &[u32]) -> Result<(), Failure> {
    for (medium, _, _, name) in NAMES {
        let token = medium.token(vision);
        if let Some(at) = tokens.iter().position(|&other| other == token) {
            let problem = format!("token {token} at position {at} is a place for {name}s, and no pixels are given");
            return Err(Failure::new(problem).help("give --pixels FILE, --image FILE or --video DIR"));
        }
    }
    Ok(())
}
