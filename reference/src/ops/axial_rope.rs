//! Axial RoPE: the table of angles of patches, each of which is at a time, a height and a width.
//!
//! ```text
//! c, s = cos, sin of [a, a]        a = [t·f, h·f, w·f]        fᵢ = θ^(−2i/m)        m = 2·⌊⌊d/3⌋/2⌋
//! ```
//!
//! - Shapes: (t, h, w) of n patches, f \[m/2\], a \[n, 3m/2\], c and s \[n, 3m\]. `rope` rotates the first 3m of d channels by
//!   it; the rest pass.
//! - Dtypes: the angles, c and s f32.
//! - Rounding: R1 at c and s.
//! - Errors: C1 d ≥ 6; C2 t, h, w ≥ 1; C3 h and w multiples of the merged square's side.
//! - Variants: D52 which channels pair, which is `rope`'s matter. Slips of ports: t goes on from one grid to the next; t, h and
//!   w in another order, or t is 0 or left out; patches are taken to come row by row.
//! - Source: spec A23; `MiniMaxM3VLVisionRotaryEmbedding` and `get_vision_position_ids` in transformers 5.23.

use ndarray::Array2;

use super::rope::{Rope, RopeTable, inverse_frequencies};
use crate::bound::ErrorBound;
use crate::bound::elementary::rotation_table;
use crate::error::require;
use crate::grid::{AXES, Grid, patches, rotary_dim};
use crate::semantics::{AxialAxes, AxialOrder, AxialPair, ChunkTime, RopePair};
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AxialRope {
    /// d: channels of a head.
    pub head_dim: usize,
    /// θ.
    pub theta: f64,
    /// Patches to a side of a square that becomes one token: they come square by square.
    pub side: usize,
    /// D52.
    pub pair: AxialPair,
    /// What t a grid begins at.
    pub time: ChunkTime,
    /// In what order patches are taken to come.
    pub order: AxialOrder,
    /// What a is made of.
    pub axes: AxialAxes,
    /// R1.
    pub table: Rounding,
}

/// The table for the patches of all grids, one after the other. Angles are f32; their cosines and sines are T's.
pub fn axial_rope<T: Real>(p: &AxialRope, grids: &[Grid]) -> Result<RopeTable<T>, ContractError> {
    p.check(grids)?;
    let angles = p.angles(grids);
    let table = |f: fn(f64) -> f64| {
        let value = |(i, j)| p.table.round(T::of(f(angles[[i, j % angles.ncols()]].wide()))); // R1
        Tracked::plain(Array2::from_shape_fn((angles.nrows(), p.rotary_dim()), value))
    };
    Ok(RopeTable { cos: table(f64::cos), sin: table(f64::sin) })
}

impl AxialRope {
    /// The roundings of a contract.
    #[must_use]
    pub fn under(self, contract: &RoundingContract) -> Self {
        AxialRope { table: contract.between(contract.rope), ..self }
    }

    /// C1 to C3.
    pub fn check(&self, grids: &[Grid]) -> Result<(), ContractError> {
        let d = self.head_dim;
        require(d >= 2 * AXES, "axial_rope C1", "d", d, format!("at least {}", 2 * AXES))?;
        for grid in grids {
            grid.require_some("axial_rope C2")?;
            grid.require_squares(self.side, "axial_rope C3")?;
        }
        Ok(())
    }

    /// m: channels of one axis.
    fn axis(&self) -> usize {
        rotary_dim(self.head_dim) / AXES
    }

    /// Of which a is made.
    fn count(&self) -> usize {
        if self.axes == AxialAxes::HeightWidth { AXES - 1 } else { AXES }
    }

    /// 3m: channels that rotate.
    pub fn rotary_dim(&self) -> usize {
        self.count() * self.axis()
    }

    /// The rotation by this table, under a contract.
    pub fn rotation(&self, contract: &RoundingContract) -> Rope {
        let (runs, pair) = match self.pair {
            AxialPair::Half => (1, RopePair::Half),
            AxialPair::AxisContiguous => (self.count(), RopePair::Half),
            AxialPair::Interleaved => (1, RopePair::Interleaved),
        };
        Rope { head_dim: self.head_dim, rotary_dim: self.rotary_dim(), runs, pair, ..Rope::default() }.under(contract)
    }

    /// a \[n, 3m/2\], in the f32 steps of the original.
    fn angles(&self, grids: &[Grid]) -> Array2<f32> {
        let frequencies = inverse_frequencies(self.theta, self.axis(), self.axis());
        let n = patches(grids).expect("the patches are there");
        let mut angles = Array2::zeros((n, self.count() * frequencies.len()));
        let mut start = 0;
        let coordinates = grids.iter().flat_map(|grid| {
            let first = match self.time {
                ChunkTime::Reset => 0,
                ChunkTime::Continued => start,
            };
            start += grid.t;
            let side = if self.order == AxialOrder::Merged { self.side } else { 1 };
            grid.coordinates(side).map(move |[t, h, w]| match self.axes {
                AxialAxes::TimeHeightWidth => [first + t, h, w],
                AxialAxes::TimeWidthHeight => [first + t, w, h],
                AxialAxes::HeightWidthTime => [h, w, first + t],
                AxialAxes::ZeroHeightWidth => [0, h, w],
                AxialAxes::HeightWidth => [h, w, 0],
            })
        });
        for (mut row, coordinate) in angles.rows_mut().into_iter().zip(coordinates) {
            for (j, angle) in row.iter_mut().enumerate() {
                let position = f32::of(coordinate[j / frequencies.len()] as f64);
                *angle = position * frequencies[j % frequencies.len()];
            }
        }
        angles
    }

    /// How far another table, made with other f32 functions, may be from this one; then R1.
    pub fn bound(&self, grids: &[Grid], table: &Array2<f64>) -> ErrorBound {
        let angles = self.angles(grids);
        rotation_table(table, |(i, j)| angles[[i, j % angles.ncols()]].wide(), self.table)
    }
}
