//! What layers keep of the tokens that they have read.

use std::ops::Range;

use half::bf16;
use ndarray::{Array2, s};
use reference::contract::{RopeTable, Site};

use super::capture::Tap;
use crate::device::Gpu;
use crate::error::Error;
use crate::ops::qk_norm_rope::KeysValues;
use crate::tensor::Matrix;

/// Keys and values of the tokens so far, and index keys; and how all the tokens rotate that it has room for.
#[derive(Debug)]
pub struct Cache {
    pub(super) layers: Vec<Kept>,
    pub(super) table: Table,
    pub(super) len: usize,
}

/// Those of a layer.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) main: KeysValues,
    pub(super) index: Option<Matrix<bf16>>,
}

/// The rotation's table, a row a position, on both sides.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) on_host: RopeTable<f32>,
    pub(super) cos: Matrix<f32>,
    pub(super) sin: Matrix<f32>,
}

impl Cache {
    /// Tokens so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets all tokens but the first: their keys, values and index keys, together.
    pub fn truncate(&mut self, tokens: usize) {
        self.len = self.len.min(tokens);
    }

    /// Keys, values and index keys of the tokens so far, layer by layer, on the host.
    pub fn download(&self, gpu: &Gpu) -> Result<Vec<Array2<bf16>>, Error> {
        let of = |Kept { main, index }: &Kept| {
            [Some(&main.keys), Some(&main.values), index.as_ref()]
                .map(|kept| kept.map(|kept| gpu.download_rows(kept, 0..self.len)))
        };
        self.layers.iter().flat_map(of).flatten().collect()
    }
}

impl Table {
    /// Shows the rows of some positions.
    pub(super) fn show(&self, positions: Range<usize>, tap: &mut Tap<'_, '_>) {
        let rows = s![positions, ..];
        tap.show_host(Site::RopeCos, self.on_host.cos.value.slice(rows));
        tap.show_host(Site::RopeSin, self.on_host.sin.value.slice(rows));
    }
}
