//! KV cache: keeps the rotated keys and the values of earlier tokens, and the index branch's keys.
//!
//! ```text
//! K ← [K; k]        V ← [V; v]        X ← [X; x]
//! ```
//!
//! - Shapes: k and v \[n, G·d\], x \[n, e\]; K and V \[s, G·d\], X \[s, e\] after the calls.
//! - Dtypes: the activations', or the precision's own for the cache (`kv_cache`), to which the caller narrows k, v and x.
//! - Rounding: none here.
//! - Errors: C1 the shapes of k and v are equal; C2 their columns are those of what is kept, those
//!   of x, too.
//! - Variants: slips of ports: k and v, or one of them, rounded to E4M3, E5M2 or bf16 whatever the precision, or quantized by scales of
//!   heads, tokens, channels or calls, as they are kept, or as later calls read them; clipped; the last row before a call overwritten
//!   with its first, or one of the two zeros, or its key, or its value; a page of rows read in another's place; rows of a ring of slots, which later ones
//!   overwrite; x before its norm, its rotation or both, or in calls of one token after the first 0, or the row before once more.
//! - Source: spec A8, A15 step 3; `DynamicCache` and `MiniMaxM3VLSparseCacheLayer` in transformers 5.23.

pub mod form;

use ndarray::Array2;

use crate::error::require;
use crate::semantics::{CacheSeam, Semantics};
use crate::tracked::Tracked;
use crate::{ContractError, Real, Storage};

/// Keys and values of every layer, and keys of its index branch.
#[derive(Debug, Clone)]
pub struct KvCache<T> {
    layers: Vec<Option<(Tracked<T>, Tracked<T>)>>,
    index: Vec<Option<Tracked<T>>>,
}

impl<T: Real> KvCache<T> {
    /// Nothing kept yet, for so many layers.
    pub fn new(layers: usize) -> Self {
        KvCache { layers: vec![None; layers], index: vec![None; layers] }
    }

    /// Of how many layers.
    pub fn layers(&self) -> usize {
        self.layers.len()
    }

    /// How many tokens one layer keeps.
    pub fn len(&self, layer: usize) -> usize {
        self.layers[layer].as_ref().map_or(0, |(keys, _)| keys.dim().0)
    }

    /// Whether no layer keeps anything.
    pub fn is_empty(&self) -> bool {
        (0..self.layers.len()).all(|layer| self.len(layer) == 0)
    }

    /// Appends; all keys and values of the layer, from the first token on. What is kept is copied only when its memory is
    /// full, and then has room for as much again.
    pub fn append(
        &mut self,
        layer: usize,
        k: &Tracked<T>,
        v: &Tracked<T>,
    ) -> Result<&(Tracked<T>, Tracked<T>), ContractError> {
        let shape = |x: &Tracked<T>| format!("{:?}", x.dim());
        require(k.dim() == v.dim(), "kv_cache C1", "shape of v", shape(v), shape(k))?;
        let width = self.layers[layer].as_ref().map_or(k.dim().1, |(keys, _)| keys.dim().1);
        require(k.dim().1 == width, "kv_cache C2", "columns of k", k.dim().1, width)?;
        let none = || Tracked::plain(Array2::zeros((0, width)));
        let kept = self.layers[layer].get_or_insert_with(|| (none(), none()));
        kept.0.append(k);
        kept.1.append(v);
        Ok(kept)
    }

    /// Keys and values of a layer as a port reads them that slips, in a call of so many `rows`; none where it does not.
    pub fn slipping(
        kept: (&Tracked<T>, &Tracked<T>),
        reads: &Semantics,
        rows: usize,
    ) -> Option<(Tracked<T>, Tracked<T>)> {
        let keys = kept.0.dim().0;
        let first = keys.checked_sub(rows)?;
        let seam = if first > 0 { reads.cache_seam } else { CacheSeam::Kept };
        let narrow = reads.cache_read.storages().map(|storage| storage.filter(|_| first > 0));
        // The last row of a ring's slot.
        let in_ring = |row: usize| {
            reads.cache_ring.filter(|slots| *slots > 0).map_or(row, |slots| row + (keys - 1 - row) / slots * slots)
        };
        let source =
            |row: usize| in_ring(seam.source(reads.shared_page.map_or(row, |page| page.source(row, keys)), first));
        let slipped = |x: &Tracked<T>, zero: Option<usize>, narrow: Option<Storage>| {
            let all: Vec<usize> = (0..keys).map(source).collect();
            let mut x = x.select(&all);
            if let Some(row) = zero {
                x.clear(row);
            }
            match narrow {
                Some(storage) => x.performed_in(0..first, storage),
                None => x,
            }
        };
        let slips = seam != CacheSeam::Kept
            || narrow != [None, None]
            || reads.shared_page.is_some()
            || reads.cache_ring.is_some();
        let zero = seam.zero(first);
        slips.then(|| (slipped(kept.0, zero[0], narrow[0]), slipped(kept.1, zero[1], narrow[1])))
    }

    /// Appends keys of a layer's index branch; all of them, from the first token on.
    pub fn append_index(&mut self, layer: usize, x: &Tracked<T>) -> Result<&Tracked<T>, ContractError> {
        let width = self.index[layer].as_ref().map_or(x.dim().1, |keys| keys.dim().1);
        require(x.dim().1 == width, "kv_cache C2", "columns of x", x.dim().1, width)?;
        let kept = self.index[layer].get_or_insert_with(|| Tracked::plain(Array2::zeros((0, width))));
        kept.append(x);
        Ok(kept)
    }

    /// What one layer keeps of its index branch.
    pub fn index(&self, layer: usize) -> Option<&Tracked<T>> {
        self.index[layer].as_ref()
    }

    /// What one layer keeps.
    pub fn layer(&self, layer: usize) -> Option<&(Tracked<T>, Tracked<T>)> {
        self.layers[layer].as_ref()
    }

    /// Takes the first `tokens` of what another cache keeps for a layer.
    pub fn adopt(&mut self, layer: usize, from: &KvCache<T>, tokens: usize) {
        let rows: Vec<usize> = (0..tokens).collect();
        let kept = from.layers[layer].as_ref().filter(|_| tokens > 0);
        self.layers[layer] = kept.map(|(keys, values)| (keys.select(&rows), values.select(&rows)));
        self.index[layer] = from.index[layer].as_ref().filter(|_| tokens > 0).map(|keys| keys.select(&rows));
    }

    /// What is done to the cache, and undone where it ends in an error.
    pub fn attempt<R, E>(&mut self, f: impl FnOnce(&mut Self) -> Result<R, E>) -> Result<R, E> {
        let first = self.len(0);
        let result = f(self);
        if result.is_err() {
            self.truncate(first);
        }
        result
    }

    /// Forgets all but the first `tokens`.
    pub fn truncate(&mut self, tokens: usize) {
        for (keys, values) in self.layers.iter_mut().flatten() {
            let kept: Vec<usize> = (0..tokens.min(keys.dim().0)).collect();
            (*keys, *values) = (keys.select(&kept), values.select(&kept));
        }
        for keys in self.index.iter_mut().flatten() {
            let kept: Vec<usize> = (0..tokens.min(keys.dim().0)).collect();
            *keys = keys.select(&kept);
        }
    }
}
