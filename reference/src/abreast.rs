//! Runs of one model side by side: where several come to a product with one weight, it is read and widened once for the rows of all.
//!
//! Each run is in a thread of its own, and waits at each product until every other waits, too, or has ended. Of those that wait, the
//! fewest go on that have the same weight: a run that others have left behind comes up to them. So who is beside whom depends on the runs
//! alone and not on how threads are scheduled, and neither do values.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use ndarray::{Array2, ArrayView2};

use crate::matrix::{Lent, Matrix};
use crate::ops::linear::{Linear, linear, side_by_side};
use crate::{ContractError, Real};

/// Runs that wait for one another.
#[derive(Debug)]
pub struct Abreast<T> {
    runs: Mutex<Runs<T>>,
    turned: Condvar,
}

/// One run of them, until it ends.
#[derive(Debug)]
pub struct Seat<'a, T> {
    abreast: &'a Abreast<T>,
    index: usize,
}

#[derive(Debug)]
struct Runs<T> {
    each: Vec<Stands<T>>,
    /// Whether one has panicked, and the others wait in vain.
    is_lost: bool,
}

/// A product that is asked for.
#[derive(Debug)]
struct Asked<T> {
    params: Linear,
    x: Array2<T>,
    weight: Lent,
}

/// Where a run stands.
#[derive(Debug)]
enum Stands<T> {
    /// It computes, or another run multiplies for it.
    Busy,
    /// It waits.
    Asks(Asked<T>),
    /// It is to multiply for these, of which it is the first.
    Leads(Vec<(usize, Asked<T>)>),
    /// Its product is there.
    Has(Array2<T>),
    Ended,
}

impl<T> Abreast<T> {
    /// So many runs.
    pub fn of(count: usize) -> Self {
        let each = (0..count).map(|_| Stands::Busy).collect();
        Abreast { runs: Mutex::new(Runs { each, is_lost: false }), turned: Condvar::new() }
    }

    /// The place of one of them: each is taken once, or the others wait for it forever.
    pub fn seat(&self, index: usize) -> Seat<'_, T> {
        Seat { abreast: self, index }
    }

    /// What is known of all, also after a panic, which leaves nothing half done.
    fn runs(&self) -> MutexGuard<'_, Runs<T>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Real> Seat<'_, T> {
    /// x·wᵀ as `params` says, together with those of other runs.
    pub(crate) fn linear(
        &self,
        params: &Linear,
        x: ArrayView2<'_, T>,
        w: &Matrix<'_>,
    ) -> Result<Array2<T>, ContractError> {
        let Some(weight) = w.lent() else { return linear(params, x, w) };
        params.check(x.dim(), w.dim())?;
        let mut runs = self.abreast.runs();
        runs.each[self.index] = Stands::Asks(Asked { params: *params, x: x.to_owned(), weight });
        runs.turn();
        self.abreast.turned.notify_all();
        loop {
            assert!(!runs.is_lost, "a run beside this one has panicked");
            match std::mem::replace(&mut runs.each[self.index], Stands::Busy) {
                Stands::Has(y) => return Ok(y),
                Stands::Leads(parts) => {
                    drop(runs);
                    return Ok(self.lead(&parts, w));
                }
                waiting => runs.each[self.index] = waiting,
            }
            runs = self.abreast.turned.wait(runs).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Multiplies for others; its own product.
    fn lead(&self, parts: &[(usize, Asked<T>)], w: &Matrix<'_>) -> Array2<T> {
        let asked: Vec<_> = parts.iter().map(|(_, asked)| (asked.params, asked.x.view())).collect();
        let mut products = side_by_side(&asked, w).into_iter();
        let own = products.next().expect("its own comes first");
        let mut runs = self.abreast.runs();
        for ((index, _), y) in parts[1..].iter().zip(products) {
            runs.each[*index] = Stands::Has(y);
        }
        drop(runs);
        self.abreast.turned.notify_all();
        own
    }
}

impl<T> Drop for Seat<'_, T> {
    fn drop(&mut self) {
        let mut runs = self.abreast.runs();
        runs.each[self.index] = Stands::Ended;
        runs.is_lost |= thread::panicking();
        runs.turn();
        drop(runs);
        self.abreast.turned.notify_all();
    }
}

impl<T> Runs<T> {
    /// If all wait, lets the fewest go on that have one product.
    fn turn(&mut self) {
        if self.each.iter().any(|stands| matches!(stands, Stands::Busy | Stands::Leads(_) | Stands::Has(_))) {
            return;
        }
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for index in 0..self.each.len() {
            let Some(own) = self.asked(index) else { continue };
            let is_of = |group: &&mut Vec<usize>| self.asked(group[0]).is_some_and(|asked| asked.is_with(own));
            match groups.iter_mut().find(is_of) {
                Some(group) => group.push(index),
                None => groups.push(vec![index]),
            }
        }
        let Some(group) = groups.into_iter().min_by_key(Vec::len) else { return };
        let first = group[0];
        let parts =
            group.into_iter().filter_map(|index| match std::mem::replace(&mut self.each[index], Stands::Busy) {
                Stands::Asks(asked) => Some((index, asked)),
                _ => None,
            });
        let parts = parts.collect();
        self.each[first] = Stands::Leads(parts);
    }

    fn asked(&self, index: usize) -> Option<&Asked<T>> {
        match &self.each[index] {
            Stands::Asks(asked) => Some(asked),
            _ => None,
        }
    }
}

impl<T> Asked<T> {
    /// Whether one product makes both.
    fn is_with(&self, other: &Self) -> bool {
        self.weight == other.weight && self.params.is_beside(&other.params)
    }
}
