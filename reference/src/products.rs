//! Products that several runs have in common: those of the same values with the same weights, which are made once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ndarray::ArrayView2;

use crate::Real;
use crate::matrix::{Lent, Matrix};
use crate::product::Product;

/// Bytes that are kept at most.
const MOST: usize = 1 << 29;

/// Products of values that are known with weights that outlive it.
#[derive(Debug, Default)]
pub struct Products<T>(Mutex<Kept<T>>);

#[derive(Debug, Default)]
struct Kept<T> {
    of: HashMap<Lent, Vec<Arc<Product<T>>>>,
    bytes: usize,
}

impl<T: Real> Products<T> {
    /// That of x and w, if another run made it.
    pub(crate) fn find(&self, x: ArrayView2<'_, T>, w: &Matrix<'_>) -> Option<Arc<Product<T>>> {
        let made = self.kept().of.get(&w.lent()?)?.clone();
        made.into_iter().find(|product| product.x == x)
    }

    /// That of x and w, which is made if there is none; `None` where w is not kept as long, or there is no room.
    pub(crate) fn find_or_make(&self, x: ArrayView2<'_, T>, w: &Matrix<'_>) -> Option<Arc<Product<T>>> {
        let lent = w.lent()?;
        if let Some(found) = self.find(x, w) {
            return Some(found);
        }
        self.kept().take(Product::<T>::bytes(x.dim(), w.dim().0))?;
        let product = Arc::new(Product::of(x, w));
        self.kept().of.entry(lent).or_default().push(Arc::clone(&product));
        Some(product)
    }

    /// What is kept, also after a panic, which leaves nothing half done.
    fn kept(&self) -> MutexGuard<'_, Kept<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Kept<T> {
    /// Counts so many bytes more, if there is room for them.
    fn take(&mut self, bytes: usize) -> Option<()> {
        self.bytes = Some(self.bytes + bytes).filter(|bytes| *bytes <= MOST)?;
        Some(())
    }
}
