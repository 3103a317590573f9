//! A matrix with the error that a candidate may have made in it.

use std::ops::Range;

use ndarray::{Array2, ArrayView2, Axis, Zip, concatenate, s};

use crate::bound::ErrorBound;
use crate::storage::{Mode, drawn};
use crate::{Real, Rounding, Storage};

/// A value of the model at one site: a matrix, one row a token unless the site says otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Tracked<T> {
    /// What the reference computed, or what a probe put in its place.
    pub value: Array2<T>,
    /// How far a correct candidate may be from it; `None` where no bounds are asked for.
    pub error: Option<ErrorBound>,
}

impl<T: Real> Tracked<T> {
    /// A value of which no bound is kept.
    pub fn plain(value: Array2<T>) -> Self {
        Tracked { value, error: None }
    }

    /// A value that is the candidate's own: no error.
    pub fn exact(value: Array2<T>) -> Self {
        let error = Some(ErrorBound::exact(value.dim()));
        Tracked { value, error }
    }

    /// A candidate's value that was rounded to `saved` when it was saved: what it was lies within half a step of it. A stochastic
    /// run draws it there.
    #[must_use]
    pub fn before_saved(value: Array2<T>, saved: Storage, mode: Mode) -> Self {
        let half = |x: T| saved.spacing(x.wide()) / 2.0;
        let (Mode::Stochastic(seed) | Mode::Sums(seed)) = mode else {
            let certain = value.mapv(half);
            // Each value between its neighbours' middles is as probable as any other.
            let sigma = certain.mapv(|half| half / 3.0_f64.sqrt());
            return Tracked { value, error: Some(ErrorBound { certain, sigma, carried: 0 }) };
        };
        Tracked::plain(value.mapv(|x| T::of(drawn(seed, x.wide(), half(x) / 3.0_f64.sqrt()))))
    }

    /// One of the values that it may be: in a run that draws its errors, each is off by its own, at random.
    #[must_use]
    pub fn strayed(&self, mode: Mode) -> Self {
        match (mode, &self.error) {
            (Mode::Stochastic(seed) | Mode::Sums(seed), Some(error)) => {
                let mut value = self.value.clone();
                Zip::from(&mut value).and(&error.sigma).for_each(|x, sigma| *x = T::of(drawn(seed, x.wide(), *sigma)));
                Tracked::plain(value)
            }
            _ => self.clone(),
        }
    }

    /// Rows and columns.
    pub fn dim(&self) -> (usize, usize) {
        self.value.dim()
    }

    /// The value.
    pub fn view(&self) -> ArrayView2<'_, T> {
        self.value.view()
    }

    /// The same in f64, for a bound.
    pub fn widened(&self) -> Tracked<f64> {
        Tracked { value: self.value.mapv(T::wide), error: self.error.clone() }
    }

    /// The error, or none where it is not tracked.
    pub fn error_or_exact(&self) -> ErrorBound {
        self.error.clone().unwrap_or_else(|| ErrorBound::exact(self.dim()))
    }

    /// The same value, whose error also has one rounding to `storage` in it.
    #[must_use]
    pub fn with_rounding(self, storage: Storage) -> Self {
        let error = self.error.map(|e| e.rounded(self.value.mapv(T::wide).view(), storage));
        Tracked { value: self.value, error }
    }

    /// The rows of `self`, then those of `below`. Where only one of them has an error, the other has none.
    #[must_use]
    pub fn stacked(&self, below: &Tracked<T>) -> Self {
        let rows = |a: ArrayView2<'_, f64>, b: ArrayView2<'_, f64>| {
            concatenate(Axis(0), &[a, b]).expect("both have the same columns")
        };
        let error = (self.error.is_some() || below.error.is_some()).then(|| {
            let (a, b) = (self.error_or_exact(), below.error_or_exact());
            ErrorBound {
                certain: rows(a.certain.view(), b.certain.view()),
                sigma: rows(a.sigma.view(), b.sigma.view()),
                carried: a.carried.max(b.carried),
            }
        });
        let value = concatenate(Axis(0), &[self.view(), below.view()]).expect("both have the same columns");
        Tracked { value, error }
    }

    /// Puts the rows of `below`, which has the same columns, under its own, in memory that grows by doubling. Where only one
    /// of them has an error, the other has none.
    pub fn append(&mut self, below: &Tracked<T>) {
        if self.error.is_some() || below.error.is_some() {
            let dim = self.dim();
            let error = self.error.get_or_insert_with(|| ErrorBound::exact(dim));
            match &below.error {
                Some(of_below) => error.append(of_below),
                None => error.append(&ErrorBound::exact(below.dim())),
            }
        }
        self.value.append(Axis(0), below.view()).expect("both have the same columns");
    }

    /// The columns of `self`, then those of `beside`. Where only one of them has an error, the other has none.
    #[must_use]
    pub fn beside(&self, beside: &Tracked<T>) -> Self {
        let transposed = |x: &Tracked<T>| Tracked {
            value: x.value.t().as_standard_layout().into_owned(),
            error: x.error.as_ref().map(ErrorBound::transposed),
        };
        let stacked = transposed(self).stacked(&transposed(beside));
        transposed(&stacked)
    }

    /// The rows that `rows` names, in that order.
    #[must_use]
    pub fn select(&self, rows: &[usize]) -> Self {
        let error = self.error.as_ref().map(|e| ErrorBound {
            certain: e.certain.select(Axis(0), rows),
            sigma: e.sigma.select(Axis(0), rows),
            carried: e.carried,
        });
        Tracked { value: self.value.select(Axis(0), rows), error }
    }

    /// A matrix that has the rows of `part` where `rows` says, and zeros elsewhere, which are nobody's.
    #[must_use]
    pub(crate) fn spread(part: Option<Self>, rows: &[usize], dim: (usize, usize)) -> Self {
        let Some(part) = part else { return Tracked::plain(Array2::zeros(dim)) };
        let mut all = Tracked { value: Array2::zeros(dim), error: None };
        rows.iter().enumerate().for_each(|(from, &to)| all.value.row_mut(to).assign(&part.value.row(from)));
        if let Some(of_part) = part.error {
            let mut error = ErrorBound { carried: of_part.carried, ..ErrorBound::exact(dim) };
            for (from, &to) in rows.iter().enumerate() {
                error.certain.row_mut(to).assign(&of_part.certain.row(from));
                error.sigma.row_mut(to).assign(&of_part.sigma.row(from));
            }
            all.error = Some(error);
        }
        all
    }

    /// The same, rounded as the candidate rounds it, too: both are apart only where a middle of two neighbours is near.
    #[must_use]
    pub fn performed(self, storage: Storage) -> Self {
        let rows = 0..self.value.nrows();
        self.performed_in(rows, storage)
    }

    /// The same, of some rows.
    #[must_use]
    pub fn performed_in(mut self, rows: Range<usize>, storage: Storage) -> Self {
        let rows = s![rows, ..];
        if let Some(error) = &mut self.error {
            let mut certain = error.certain.slice_mut(rows);
            certain.zip_mut_with(&self.value.slice(rows), |e, x| *e = storage.apart(x.wide(), *e));
            error.sigma.slice_mut(rows).assign(&certain);
        }
        self.value.slice_mut(rows).mapv_inplace(|x| Rounding::nearest(storage).round(x));
        self
    }

    /// Makes a row zeros.
    pub fn clear(&mut self, row: usize) {
        self.value.row_mut(row).fill(T::zero());
        if let Some(error) = &mut self.error {
            error.certain.row_mut(row).fill(0.0);
            error.sigma.row_mut(row).fill(0.0);
        }
    }

    /// The same with zeros in some columns.
    #[must_use]
    pub fn without_columns(mut self, is_one: impl Fn(usize) -> bool) -> Self {
        for column in (0..self.dim().1).filter(|column| is_one(*column)) {
            self.value.column_mut(column).fill(T::zero());
            if let Some(error) = &mut self.error {
                error.certain.column_mut(column).fill(0.0);
                error.sigma.column_mut(column).fill(0.0);
            }
        }
        self
    }

    /// The rows in `range`.
    #[must_use]
    pub fn rows(&self, range: Range<usize>) -> Self {
        let rows = s![range, ..];
        let error = self.error.as_ref().map(|e| ErrorBound {
            certain: e.certain.slice(rows).to_owned(),
            sigma: e.sigma.slice(rows).to_owned(),
            carried: e.carried,
        });
        Tracked { value: self.value.slice(rows).to_owned(), error }
    }

    /// The columns that `columns` names, in that order.
    #[must_use]
    pub fn with_columns(&self, columns: &[usize]) -> Self {
        let error = self.error.as_ref().map(|e| ErrorBound {
            certain: e.certain.select(Axis(1), columns),
            sigma: e.sigma.select(Axis(1), columns),
            carried: e.carried,
        });
        Tracked { value: self.value.select(Axis(1), columns), error }
    }

    /// The blocks of d columns that `blocks` names, counted row by row, in that order.
    #[must_use]
    pub(crate) fn with_blocks(&self, d: usize, blocks: &[usize]) -> Self {
        fn moved<T: Clone>(x: &Array2<T>, d: usize, blocks: &[usize]) -> Array2<T> {
            let apart = x.to_shape((x.len() / d, d)).expect("rows are of whole blocks").select(Axis(0), blocks);
            apart.into_shape_with_order(x.dim()).expect("each block has a place")
        }
        let error = self.error.as_ref().map(|e| ErrorBound {
            certain: moved(&e.certain, d, blocks),
            sigma: moved(&e.sigma, d, blocks),
            carried: e.carried,
        });
        Tracked { value: moved(&self.value, d, blocks), error }
    }

    /// The columns in `range`.
    #[must_use]
    pub fn columns(&self, range: Range<usize>) -> Self {
        let columns = s![.., range];
        let error = self.error.as_ref().map(|e| ErrorBound {
            certain: e.certain.slice(columns).to_owned(),
            sigma: e.sigma.slice(columns).to_owned(),
            carried: e.carried,
        });
        Tracked { value: self.value.slice(columns).to_owned(), error }
    }
}
