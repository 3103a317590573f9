//! What each request of several shows, and each of its calls, of the images and videos that came with all of them.

use std::collections::BTreeMap;

use fixtures::activations::rows::{Pass, Patches};
use ndarray::s;
use reference::Error;
use reference::config::Vision;
use reference::media::{Media, Medium, PASSES, Pixels};

use crate::failure::Failure;
use crate::session::rows::RequestRows;

/// Names of a medium's tensors, and of its features' places.
pub(super) const NAMES: [(Medium, &str, &str, &str); 2] = [
    (Medium::Image, "pixel_values", "image_grid_thw", "image"),
    (Medium::Video, "pixel_values_videos", "video_grid_thw", "video"),
];

pub(super) const HELP: &str =
    "give what transformers' processor makes of the prompt: its tokens and its pixels belong together";

/// What a pass of a request shows.
struct Seen {
    /// Its images and videos.
    media: Option<Media>,
    /// Where its patches are, on each pass of its own through the tower, among those of other requests.
    patches: [Option<Patches>; PASSES],
}

/// A pass of a request: the tokens of its prompt that it reads, and the call that it is in.
type Reader<'p> = (&'p [u32], usize);

/// What each pass reads of its request's prompt.
pub(super) fn prompts(rows: &RequestRows) -> impl Iterator<Item = &[u32]> {
    let all = rows.prompt.tokens.len();
    let own = move |pass: &Pass| pass.tokens.len().min(all.saturating_sub(pass.first));
    rows.request.passes.iter().map(move |pass| &pass.tokens[..own(pass)])
}

/// What each request shows, and where its patches are: calls one after the other, and in each the requests, show the next images, as
/// many as there are places for, and the next videos.
pub(super) fn shared_out(
    vision: &Vision,
    all: &Media,
    asked: &mut [RequestRows],
) -> Result<Vec<Option<Media>>, Failure> {
    let mut readers: Vec<(usize, (usize, usize))> = Vec::new();
    for (number, rows) in asked.iter().enumerate() {
        readers.extend(rows.request.passes.iter().enumerate().map(|(pass, own)| (own.call, (number, pass))));
    }
    readers.sort_unstable();
    let fed: Vec<Vec<&[u32]>> = asked.iter().map(|rows| prompts(rows).collect()).collect();
    let each: Vec<Reader<'_>> = readers.iter().map(|(call, (number, pass))| (fed[*number][*pass], *call)).collect();
    let seen = parts(vision, all, &each)?;
    let mut found: Vec<Option<Media>> = vec![None; asked.len()];
    for ((_, (number, pass)), Seen { media, patches }) in readers.into_iter().zip(seen) {
        let own = &mut asked[number].request.passes[pass];
        own.patches = patches;
        found[number] = match (found[number].take(), media) {
            (None, Some(media)) if own.first == 0 => Some(media),
            (before, Some(media)) => Some(before.unwrap_or_default().then(own.first, media)),
            (before, None) => before,
        };
    }
    Ok(found)
}

/// Each reader's part.
fn parts(vision: &Vision, all: &Media, readers: &[Reader<'_>]) -> Result<Vec<Seen>, Failure> {
    let mut own: Vec<[Option<Pixels>; 2]> = readers.iter().map(|_| [None, None]).collect();
    for (kind, (medium, ..)) in NAMES.iter().enumerate() {
        let pixels = all.passes().find(|(other, _)| other == medium).map(|(_, pixels)| pixels);
        for (reader, part) in divided(vision, (*medium, pixels), readers)?.into_iter().enumerate() {
            own[reader][kind] = part;
        }
    }
    // Rows of each call's images, and of its videos.
    let mut rows: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    let mut firsts: Vec<[usize; 2]> = Vec::with_capacity(readers.len());
    for (own, (_, call)) in own.iter().zip(readers) {
        firsts.push([0, 1].map(|kind| {
            let count = own[kind].as_ref().map_or(0, |pixels| pixels.values.nrows());
            let all = rows.entry((*call, kind)).or_default();
            *all += count;
            *all - count
        }));
    }
    let seen = own.into_iter().zip(firsts).zip(readers).map(|((own, firsts), (_, call))| {
        let mut patches = [None, None];
        let kinds = (0..2).filter(|kind| own[*kind].is_some()).enumerate();
        for (pass, kind) in kinds {
            let (count, of) = (own[kind].as_ref().map_or(0, |pixels| pixels.values.nrows()), rows[&(*call, kind)]);
            // The tower takes the images of all requests first.
            let in_call = usize::from(kind == 1 && rows[&(*call, 0)] > 0);
            let rows = firsts[kind]..firsts[kind] + count;
            patches[pass] = (rows.len() < of || in_call != pass).then_some(Patches { pass: in_call, rows, of });
        }
        let [images, videos] = own;
        let media = match (&images, &videos) {
            (None, None) => None,
            _ => Some(Media::new(vision, images, videos).map_err(Error::from)?),
        };
        Ok::<_, Failure>(Seen { media, patches })
    });
    seen.collect()
}

/// One medium's pixels, reader by reader.
fn divided(
    vision: &Vision,
    (medium, pixels): (Medium, Option<&Pixels>),
    readers: &[Reader<'_>],
) -> Result<Vec<Option<Pixels>>, Failure> {
    let name = NAMES.iter().find(|(other, ..)| *other == medium).map_or("", |(.., name)| name);
    let grids = pixels.map(|pixels| &pixels.grids[..]).unwrap_or_default();
    let (mut next, mut row, mut parts) = (0, 0, Vec::with_capacity(readers.len()));
    for (tokens, call) in readers {
        let places = tokens.iter().filter(|token| **token == medium.token(vision)).count();
        let (first, from) = (next, row);
        while (row - from) / vision.merged() < places && next < grids.len() {
            row += grids[next].patches().expect("they were counted when they were read");
            next += 1;
        }
        let features = (row - from) / vision.merged();
        if features != places {
            let problem = format!(
                "a prompt of call {call} has {places} {name} places, and the {name}s that are left of those given fill {features}: \
                 each shows the next ones, as many as it has places for"
            );
            return Err(Failure::new(problem).help(HELP));
        }
        parts.push(pixels.filter(|_| places > 0).map(|pixels| Pixels {
            values: pixels.values.slice(s![from..row, ..]).to_owned(),
            grids: pixels.grids[first..next].to_vec(),
        }));
    }
    if next < grids.len() {
        let (used, all) = (next, grids.len());
        let problem = format!("{all} {name}s are given, and the prompts have places for the first {used}");
        return Err(Failure::new(problem).help(HELP));
    }
    Ok(parts)
}
