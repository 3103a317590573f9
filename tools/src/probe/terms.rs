//! Sums of terms of either sign, and the order in which they are added.

use ndarray::ArrayD;
use reference::Storage;

use super::function::{CHANNELS, COLUMNS, HEADS, Kind, Probed, ROWS, array};
use super::tree::{Tree, build};
use crate::failure::Failure;

/// A huge term, and one that vanishes beside it and is counted.
#[derive(Debug, Clone, Copy)]
struct Masks {
    huge: f64,
    unit: f64,
}

/// The sums of a function that adds terms of either sign.
pub(super) struct Terms<'p, 'f> {
    /// The function.
    pub(super) probed: &'p mut Probed<'f>,
    /// Rows of terms that a call has: as many as there is room for, or one alone, in the first row.
    pub(super) rows: usize,
    /// Whether a product's columns, whose right sides were the same, came out otherwise.
    pub(super) differ: bool,
}

/// Rows of terms that a call has room for.
pub(super) fn room(kind: Kind) -> usize {
    if kind == Kind::Attention { HEADS * CHANNELS } else { ROWS }
}

impl Terms<'_, '_> {
    /// The sum of each row of terms.
    pub(super) fn sums(&mut self, rows: &[Vec<f64>]) -> Result<Vec<f64>, Failure> {
        let ones = vec![1.0; self.probed.size];
        self.products(rows, &ones)
    }

    /// The same of terms that a product makes of these and of factors, which others do not have.
    pub(super) fn products(&mut self, rows: &[Vec<f64>], factors: &[f64]) -> Result<Vec<f64>, Failure> {
        let mut sums = Vec::with_capacity(rows.len());
        for rows in rows.chunks(self.rows) {
            sums.extend(self.call(rows, factors)?);
        }
        Ok(sums)
    }

    /// The same of as many rows as a call takes.
    fn call(&mut self, rows: &[Vec<f64>], factors: &[f64]) -> Result<Vec<f64>, Failure> {
        let n = self.probed.size;
        let left = |probed: &Probed<'_>| {
            debug_assert!(rows.iter().all(|row| row.len() == probed.size), "a term for each place");
            let mut values = rows.concat();
            values.resize(ROWS * n, 0.0);
            array(&[ROWS, n], values)
        };
        match self.probed.kind {
            Kind::Product => {
                let right = factors.iter().flat_map(|&factor| [factor; COLUMNS]).collect();
                let inputs = [left(self.probed), array(&[n, COLUMNS], right)];
                let made = self.probed.call(&inputs, &[ROWS, COLUMNS])?;
                let is_alike =
                    |row: ndarray::ArrayViewD<'_, f64>| row.iter().all(|x| x.to_bits() == row[[0]].to_bits());
                self.differ |= !made.outer_iter().take(rows.len()).all(is_alike);
                Ok(made.outer_iter().take(rows.len()).map(|row| row[[0]]).collect())
            }
            Kind::Attention => self.attended(rows),
            _ => {
                let input = left(self.probed);
                let made = self.probed.call(&[input], &[ROWS])?;
                Ok(made.iter().take(rows.len()).copied().collect())
            }
        }
    }

    /// Sums of values, which queries and keys of zero weigh alike: each channel of each head has a row of terms, times as many
    /// keys as there are, which makes their mean the sum.
    fn attended(&mut self, rows: &[Vec<f64>]) -> Result<Vec<f64>, Failure> {
        let n = self.probed.size;
        let mut values = ArrayD::zeros(vec![HEADS, n, CHANNELS]);
        for (place, row) in rows.iter().enumerate() {
            for (key, term) in row.iter().enumerate() {
                values[[place / CHANNELS, key, place % CHANNELS]] = term * n as f64;
            }
        }
        let inputs = [ArrayD::zeros(vec![HEADS, 1, CHANNELS]), ArrayD::zeros(vec![HEADS, n, CHANNELS]), values];
        let made = self.probed.call(&inputs, &[HEADS, 1, CHANNELS])?;
        Ok(made.iter().take(rows.len()).copied().collect())
    }

    fn masks(&self) -> Masks {
        match self.probed.storage {
            Storage::F16 => Masks { huge: 2.0_f64.powi(15), unit: 2.0_f64.powi(-24) },
            _ => Masks { huge: 2.0_f64.powi(100), unit: 1.0 },
        }
    }

    /// How many terms are counted at once, so that the output's type does not round the number.
    fn counted(&self) -> usize {
        match self.probed.output {
            Storage::Bf16 => 1 << 8,
            Storage::F16 => 1 << 11,
            _ => 1 << 16,
        }
    }

    /// The order in which all terms are added; `None` where it is no tree's.
    pub(super) fn order(&mut self) -> Result<Option<Tree>, Failure> {
        let all: Vec<usize> = (0..self.probed.size).collect();
        let mut is_counted = true;
        let tree = build(&all, &mut |pairs| {
            let joined = self.joined(pairs)?;
            is_counted &= joined.iter().all(Option::is_some);
            Ok(joined.into_iter().map(|joined| joined.unwrap_or(0)).collect())
        })?;
        Ok(tree.filter(|_| is_counted))
    }

    /// How many terms are in the smallest sum that has both of a pair: all but those that are added after the one has taken the
    /// other away, which are counted. `None` where what is left is no number of terms.
    fn joined(&mut self, pairs: &[(usize, usize)]) -> Result<Vec<Option<usize>>, Failure> {
        let (n, Masks { huge, unit }, block) = (self.probed.size, self.masks(), self.counted());
        let mut joined = vec![Some(n); pairs.len()];
        for first in (0..n).step_by(block) {
            let counted = first..n.min(first + block);
            for (pairs, joined) in pairs.chunks(512).zip(joined.chunks_mut(512)) {
                let row = |&(i, j): &(usize, usize)| {
                    let mut row = vec![0.0; n];
                    row[counted.clone()].fill(unit);
                    (row[i], row[j]) = (huge, -huge);
                    row
                };
                let sums = self.sums(&pairs.iter().map(row).collect::<Vec<_>>())?;
                for (left, joined) in sums.into_iter().map(|sum| sum / unit).zip(joined) {
                    let is_number = left >= 0.0 && left <= counted.len() as f64 && left.fract() == 0.0;
                    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small number")]
                    let left = is_number.then_some(left as usize);
                    *joined = joined.zip(left).and_then(|(all, left)| all.checked_sub(left));
                }
            }
        }
        Ok(joined)
    }
}
