//! Projections of queries, keys and values that are stored as one matrix, and cut otherwise than it was put together.

use std::fmt;

use ndarray::{Array2, ArrayBase, ArrayView2, Axis, concatenate, s};
use reference::config::Config;
use reference::error::WeightError;
use reference::matrix::Matrix;
use reference::weights::LayerWeight;

/// How one matrix of all three is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Queries, then keys, then values, of a matrix that has those of a key head together.
    ByProjection,
    /// Those of a key head together, of a matrix that has queries, then keys, then values.
    ByKeyHead,
}

impl Cut {
    /// Both.
    pub(in crate::diagnose) const ALL: [Cut; 2] = [Cut::ByProjection, Cut::ByKeyHead];

    /// The projection as it is cut; nothing of another tensor.
    pub(super) fn apply<'w>(
        self,
        weight: LayerWeight,
        config: &Config,
        get: &dyn Fn(LayerWeight) -> Result<Matrix<'w>, WeightError>,
    ) -> Option<Result<Matrix<'w>, WeightError>> {
        let place = PROJECTIONS.iter().position(|own| *own == weight)?;
        let cut = || {
            let [q, k, v] = PROJECTIONS.map(get);
            let (q, k, v) = (q?, k?, v?);
            let storage = q.storage();
            let parts = self.of([&q, &k, &v].map(Matrix::dense::<f64>), config);
            Ok(Matrix::stored(parts[place].view(), storage))
        };
        Some(cut())
    }

    /// Queries, keys and values as they are cut.
    fn of(self, [q, k, v]: [Array2<f64>; 3], config: &Config) -> [Array2<f64>; 3] {
        let groups = config.num_key_value_heads;
        let rows = [&q, &k, &v].map(ArrayBase::nrows);
        // Of each key head its rows of the three, and where they begin beside the others.
        let of_group = rows.map(|rows| rows / groups);
        let stacked =
            |parts: &[ArrayView2<'_, f64>]| concatenate(Axis(0), parts).expect("all have the input's columns");
        let rest = [0, rows[0], rows[0] + rows[1]];
        let together = of_group.iter().sum::<usize>();
        let within = [0, of_group[0], of_group[0] + of_group[1]];
        match self {
            Cut::ByProjection => {
                let of_head = |g: usize| {
                    let own = |w: &Array2<f64>, each: usize| w.slice(s![g * each..(g + 1) * each, ..]).to_owned();
                    let parts = [own(&q, of_group[0]), own(&k, of_group[1]), own(&v, of_group[2])];
                    stacked(&[parts[0].view(), parts[1].view(), parts[2].view()])
                };
                let heads: Vec<Array2<f64>> = (0..groups).map(of_head).collect();
                let all = stacked(&heads.iter().map(|head| head.view()).collect::<Vec<_>>());
                [0, 1, 2].map(|i| all.slice(s![rest[i]..rest[i] + rows[i], ..]).to_owned())
            }
            Cut::ByKeyHead => {
                let all = stacked(&[q.view(), k.view(), v.view()]);
                [0, 1, 2].map(|i| {
                    let of_head = |g: usize| {
                        let first = g * together + within[i];
                        all.slice(s![first..first + of_group[i], ..])
                    };
                    stacked(&(0..groups).map(of_head).collect::<Vec<_>>())
                })
            }
        }
    }
}

/// In the order in which they are put together.
const PROJECTIONS: [LayerWeight; 3] = [LayerWeight::QProj, LayerWeight::KProj, LayerWeight::VProj];

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (has, cut) = ("those of a key head together", "queries, then keys, then values");
        let (is, taken) = if *self == Cut::ByProjection { (has, cut) } else { (cut, has) };
        write!(f, "q_proj, k_proj and v_proj are cut as if one matrix had {taken}, which has {is}")
    }
}
