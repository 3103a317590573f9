//! Rotation tables as ports have them that are put together otherwise: columns that have others' angles or none, cosines and sines
//! that stand for each other, values of fewer bits. Whatever the angles: of the text model, or of the tower's axes.

use std::f64::consts::FRAC_PI_2;

use ndarray::Array2;
use reference::grid::{AXES, rotary_dim};
use reference::ops::rope::inverse_frequencies;
use reference::{Site, Storage};

use crate::diagnose::catalogue::order::exchanged;
use crate::diagnose::search::Bench;

/// Pairs of channels of which every two are exchanged.
const PAIRS: usize = 32;

/// Another table than the right one.
#[derive(Debug, Clone)]
pub(super) struct Table {
    /// What it is: "the frequencies are in reverse order".
    pub(super) said: String,
    /// The column whose angle each has; a column without one does not rotate.
    columns: Vec<Option<usize>>,
    /// By how much the angle is more where the cosine is taken of it, and where the sine is: π/2 makes one of the other.
    more: [f64; 2],
    rounded: Storage,
}

/// The angles of a site's rows \[rows, pairs\]: of tokens, or of the patches of a pass.
pub(super) fn angles(bench: &Bench<'_, '_>) -> Option<Array2<f64>> {
    let config = bench.config();
    let of = |theta, dim| -> Vec<f32> { inverse_frequencies(theta, dim, dim) };
    let Site::Vision(pass, _) = bench.site else {
        let (frequencies, rows) = (of(config.rope_theta, config.rotary_dim), bench.tokens().len());
        let angle = |(row, pair): (usize, usize)| f64::from(row as f32 * frequencies[pair]);
        return Some(Array2::from_shape_fn((rows, frequencies.len()), angle));
    };
    let (vision, pixels) = bench.vision(pass)?;
    let axis = rotary_dim(vision.head_dim()) / 2 / AXES;
    let frequencies = of(vision.rope_theta, 2 * axis);
    let side = vision.spatial_merge_size;
    let patches: Vec<[usize; AXES]> = pixels.grids.iter().flat_map(|grid| grid.coordinates(side)).collect();
    let angle = |(row, pair): (usize, usize)| f64::from(patches[row][pair / axis] as f32 * frequencies[pair % axis]);
    (vision.axes == AXES && axis > 0).then(|| Array2::from_shape_fn((patches.len(), AXES * axis), angle))
}

impl Table {
    /// The right one, of so many pairs.
    pub(super) fn right(pairs: usize) -> Self {
        Table {
            said: "the table is the right one".to_owned(),
            columns: (0..2 * pairs).map(|column| Some(column % pairs)).collect(),
            more: [0.0; 2],
            rounded: Storage::Real,
        }
    }

    /// All others of so many pairs; `groups` are those whose frequencies follow each other, as of an axis.
    pub(super) fn all(pairs: usize, groups: usize) -> Vec<Self> {
        let right = Table::right(pairs);
        let plain = |said: &str, of: &dyn Fn(usize) -> Option<usize>| Table {
            said: said.to_owned(),
            columns: (0..2 * pairs).map(|column| of(column % pairs)).collect(),
            ..right.clone()
        };
        let own = |said: &str, more, rounded| Table { more, rounded, ..plain(said, &Some) };
        let mut all = vec![
            plain("the frequencies are in reverse order", &|i| Some(pairs - 1 - i)),
            Table {
                columns: (0..2 * pairs).map(|column| Some(column / 2)).collect(),
                ..plain(
                    "each frequency stands in two columns behind each other, f₀, f₀, f₁, f₁, …, as for channels that are paired \
                     with their neighbours, and not in the halves of the table",
                    &Some,
                )
            },
            own("cosines and sines stand in each other's place", [-FRAC_PI_2, FRAC_PI_2], Storage::Real),
            own("sines stand in the place of cosines, too", [-FRAC_PI_2, 0.0], Storage::Real),
            own("cosines stand in the place of sines, too", [0.0, FRAC_PI_2], Storage::Real),
            own("cosines and sines are rounded to bf16", [0.0; 2], Storage::Bf16),
            own("cosines and sines are rounded to f16", [0.0; 2], Storage::F16),
            plain("each pair has the frequency of the next", &|i| Some(i + 1).filter(|next| *next < pairs)),
            plain("each pair has the frequency of the one before", &|i| Some(i.saturating_sub(1))),
        ];
        let one_pair = (0..pairs).map(|pair| {
            plain(&format!("pair {pair} of {pairs} does not rotate"), &|i| Some(i).filter(|own| *own != pair))
        });
        all.extend(one_pair);
        let two = (0..pairs).flat_map(|a| (a + 1..pairs).map(move |b| (a, b))).filter(|_| pairs <= PAIRS);
        all.extend(two.map(|(a, b)| {
            plain(&format!("pairs {a} and {b} have each other's frequency"), &|i| Some(exchanged(a, b, i)))
        }));
        if groups > 1 {
            let each = pairs / groups;
            all.push(plain(
                "the axes' frequencies stand by turns, f₀ of each, then f₁ of each, …, and not axis by axis",
                &|i| Some(i % groups * each + i / groups),
            ));
            all.extend((0..groups).flat_map(|a| (a + 1..groups).map(move |b| (a, b))).map(|(a, b)| {
                plain(&format!("axes {a} and {b} have each other's places"), &|i| {
                    Some(exchanged(a, b, i / each) * each + i % each)
                })
            }));
        }
        // What is the right one, as of a single pair in reverse order, is no other.
        let is_right =
            |table: &Table| (&table.columns, table.more, table.rounded) == (&right.columns, right.more, right.rounded);
        all.retain(|table| !is_right(table));
        all
    }

    /// c or s of a row's angles, in a column.
    fn value(&self, angles: &Array2<f64>, function: fn(f64) -> f64, more: f64, (row, column): (usize, usize)) -> f64 {
        let angle = self.columns[column].map_or(0.0, |pair| angles[[row, pair]] + more);
        self.rounded.nearest(function(angle))
    }

    /// c and s \[rows, columns\].
    pub(super) fn of(&self, angles: &Array2<f64>) -> [Array2<f64>; 2] {
        let dim = (angles.nrows(), self.columns.len());
        [(f64::cos as fn(f64) -> f64, self.more[0]), (f64::sin, self.more[1])]
            .map(|(function, more)| Array2::from_shape_fn(dim, |at| self.value(angles, function, more, at)))
    }
}
