//! What pixels were before the patch embedding.
//!
//! ```text
//! yᵢ = Σc W(c)·x′(i,c)        x′(i,c) = Σₑ A(c,e)·x(i,e) + b(c)        solved for A and b, of colours c and e
//! ```
//!
//! with x(i,c) \[T·P·P\] the pixels of patch i that were given, and W(c) \[d, T·P·P\] the columns of colour c. Levels p of 0 to
//! 255 become x = (k·p − m)/s, with k = 1/255 and CLIP's m and s; of other k, m and s there follow A and b.

use ndarray::{Array1, Array2, Axis, s};
use reference::site::VisionSite;
use reference::weights::{VisionWeight, Weight};
use reference::{Error, Site};

use super::least_squares;
use super::solution::Solution;
use crate::diagnose::search::Bench;
use crate::failure::Failure;

/// Colours of a picture.
const COLOURS: usize = 3;

/// What colours are less and divided by.
type Normal = [[f64; COLOURS]; 2];

/// CLIP's, as M3's processor has them, and others that people use.
const CLIP: Normal = [[0.481_454_66, 0.457_827_5, 0.408_210_73], [0.268_629_54, 0.261_302_58, 0.275_777_11]];
const NORMALS: [(&str, Normal); 5] = [
    ("", CLIP),
    (
        "with means and deviations in the order of blue, green, red",
        [[CLIP[0][2], CLIP[0][1], CLIP[0][0]], [CLIP[1][2], CLIP[1][1], CLIP[1][0]]],
    ),
    ("with ImageNet's means and deviations", [[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]]),
    ("with means and deviations of 0.5", [[0.5; COLOURS]; 2]),
    ("without means and deviations", [[0.0; COLOURS], [1.0; COLOURS]]),
];

/// What levels are divided by.
const LEVELS: [f64; 5] = [255.0, 256.0, 127.5, 128.0, 1.0];

/// In what order colours are.
const ORDERS: [(&str, [usize; COLOURS]); 2] = [("", [0, 1, 2]), ("with red and blue exchanged", [2, 1, 0])];

/// Patches by which A and b are solved for: each has an equation for every channel.
const PATCHES: usize = 64;

/// How many standard deviations numbers may be off to be the same.
const CERTAIN: f64 = 8.0;

/// What f32 leaves of levels that are scaled in several steps, as a share.
const ROUNDED: f64 = 1e-6;

/// What of the difference may be left, of its squares: as of the experts' outputs.
const LEFT: f64 = 0.02;

pub(super) fn solve(bench: &Bench<'_, '_>) -> Result<Vec<Solution>, Failure> {
    let Site::Vision(pass, VisionSite::Embeddings) = bench.site else { return Ok(Vec::new()) };
    let Some((vision, pixels)) = bench.vision(pass) else { return Ok(Vec::new()) };
    let patch = vision.patch;
    let x = pixels.values.mapv(f64::from);
    if patch.channels != COLOURS || x.nrows() != bench.candidate.nrows() {
        return Ok(Vec::new());
    }
    let w: Array2<f64> = bench.with_model(|model| {
        let w = model.weights().get(Weight::Vision(VisionWeight::Patches)).map_err(Error::from)?;
        Ok(w.dense())
    })?;
    let each = patch.values() / COLOURS;
    let columns = |colour: usize| s![.., colour * each..(colour + 1) * each];
    // What each of A and b adds, A first.
    let mut parts: Vec<Array2<f64>> = Vec::new();
    for to in 0..COLOURS {
        parts.extend((0..COLOURS).map(|from| x.slice(columns(from)).dot(&w.slice(columns(to)).t())));
    }
    let ones = Array2::<f64>::ones((x.nrows(), each));
    parts.extend((0..COLOURS).map(|to| ones.dot(&w.slice(columns(to)).t())));
    let sum = |numbers: &[f64]| -> Array2<f64> {
        parts.iter().zip(numbers).fold(Array2::zeros(bench.candidate.dim()), |sum, (part, by)| sum + part * *by)
    };
    let rows: Vec<usize> = (0..x.nrows()).step_by(x.nrows().div_ceil(PATCHES)).collect();
    let of_rows = |values: &Array2<f64>| values.select(Axis(0), &rows).into_iter().collect::<Array1<f64>>();
    let columns: Vec<Array1<f64>> = parts.iter().map(of_rows).collect();
    let equations = Array2::from_shape_fn((columns[0].len(), parts.len()), |(i, part)| columns[part][i]);
    let own = of_rows(&bench.candidate);
    let Some(found) = least_squares::solve(equations.view(), own.view()) else { return Ok(Vec::new()) };
    let apart = &bench.candidate - &bench.ideal;
    let left = &bench.candidate - &sum(&found.x);
    let squares = |x: &Array2<f64>| x.iter().map(|x| x * x).sum::<f64>();
    if squares(&left) > LEFT * squares(&apart) {
        return Ok(Vec::new());
    }
    let said = known(&found).map(|(said, numbers)| Solution::new(vec![said], sum(&numbers)));
    let said = said.or_else(|| told(&found).map(|said| Solution::new(vec![said], sum(&found.x))));
    Ok(said.into_iter().collect())
}

/// How levels became pixels, if that is known, and A and b of it; where several are, as of pictures of one colour, none is.
fn known(found: &least_squares::Solution) -> Option<(String, Vec<f64>)> {
    let is = |numbers: &Vec<f64>| {
        let each = numbers.iter().zip(&found.x).zip(&found.deviation);
        each.into_iter().all(|((a, b), deviation)| (a - b).abs() <= CERTAIN * deviation + ROUNDED * a.abs())
    };
    let mut all = Vec::new();
    for (of, levels) in LEVELS.map(|levels| (format!("levels are divided by {levels}"), levels)) {
        for (normal, [means, deviations]) in NORMALS {
            for (order, from) in ORDERS {
                let numbers = numbers(levels, [means, deviations], from);
                let right = levels == LEVELS[0] && normal.is_empty() && order.is_empty();
                if !right && is(&numbers) {
                    let parts: Vec<&str> =
                        [&of[..], normal, order].into_iter().filter(|part| !part.is_empty()).collect();
                    all.push((format!("pixels are made otherwise: {}", parts.join(", ")), numbers));
                }
            }
        }
    }
    if all.len() == 1 { all.pop() } else { None }
}

/// A and b, where colour c is made of colour `from[c]`: x·s + m is k·p of it.
fn numbers(levels: f64, [means, deviations]: Normal, from: [usize; COLOURS]) -> Vec<f64> {
    let scale = LEVELS[0] / levels;
    let mut numbers = vec![0.0; COLOURS * COLOURS + COLOURS];
    for c in 0..COLOURS {
        let e = from[c];
        numbers[c * COLOURS + e] = scale * CLIP[1][e] / deviations[c];
        numbers[COLOURS * COLOURS + c] = (scale * CLIP[0][e] - means[c]) / deviations[c];
    }
    numbers
}

/// A and b as they are, if each colour is made of itself alone, and of that for certain.
fn told(found: &least_squares::Solution) -> Option<String> {
    let is_none = |i: usize| found.x[i].abs() <= CERTAIN * found.deviation[i];
    let others = (0..COLOURS * COLOURS).filter(|i| i / COLOURS != i % COLOURS);
    let factors: Vec<String> = (0..COLOURS).map(|c| format!("{:.5}", found.x[c * COLOURS + c])).collect();
    let added: Vec<String> = found.x[COLOURS * COLOURS..].iter().map(|b| format!("{b:.5}")).collect();
    let is_known = |c: usize| !is_none(c * COLOURS + c);
    (others.into_iter().all(is_none) && (0..COLOURS).all(is_known)).then(|| {
        format!(
            "pixels of red, green and blue are {} times the right ones, and {} more",
            factors.join(", "),
            added.join(", ")
        )
    })
}
