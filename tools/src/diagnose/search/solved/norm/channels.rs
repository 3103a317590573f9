//! What an RMS norm multiplies its channels with, beside its weight.

use ndarray::{Array1, Zip, s};
use reference::Storage;

use crate::diagnose::search::solved::listed::listed;

/// How many standard deviations a channel's number may be off to be the same.
const CERTAIN: f64 = 8.0;

/// Roundings of f32 that sums leave of all channels alike.
const SUMS: f64 = 64.0;

/// v and w of each channel.
pub(super) struct Channels<'a> {
    /// What values were multiplied with, but for a factor that all have in common.
    pub(super) v: &'a Array1<f64>,
    /// The standard deviation of each.
    pub(super) deviation: Array1<f64>,
    /// What they have to be multiplied with.
    pub(super) w: &'a Array1<f64>,
}

impl Channels<'_> {
    /// Whether v, times a factor, is a weight, from a channel on.
    fn are(&self, factor: f64, first: usize, weight: &Array1<f64>) -> bool {
        let channels = first..first + weight.len();
        let (v, deviation) = (self.v.slice(s![channels.clone()]), self.deviation.slice(s![channels]));
        let least = SUMS * Storage::F32.unit_roundoff();
        Zip::from(v)
            .and(deviation)
            .and(weight)
            .all(|v, sigma, w| (factor * v - w).abs() <= CERTAIN * factor.abs() * sigma + least * w.abs())
    }

    /// What v is, if it is not w.
    pub(super) fn told(&self, others: &[(String, Array1<f64>)]) -> Option<String> {
        let width = self.w.len();
        let is = |w: &Array1<f64>| self.are(w.dot(self.v) / self.v.dot(self.v), 0, w);
        if is(&self.w.mapv(|w| w * w)) {
            return Some("the weight is there twice: channels are multiplied by its square".to_owned());
        }
        if is(&Array1::ones(width)) {
            return Some("the weight is left out: every channel has the same".to_owned());
        }
        for (by, what) in [(-1.0, "w instead of 1 + w"), (1.0, "1 + w instead of w")] {
            if is(&self.w.mapv(|w| w + by)) {
                return Some(format!("each channel is multiplied by {what}"));
            }
        }
        for rows in (2..width).filter(|rows| width.is_multiple_of(*rows)) {
            let columns = width / rows;
            let transposed: Array1<f64> = (0..width).map(|i| self.w[i % rows * columns + i / rows]).collect();
            if is(&transposed) {
                return Some(format!("the weight is read as [{rows}, {columns}] transposed"));
            }
        }
        for by in 1..width {
            let rotated: Array1<f64> = (0..width).map(|i| self.w[(i + by) % width]).collect();
            if is(&rotated) {
                return Some(format!("each channel has the weight of the one {by} behind it, modulo {width}"));
            }
        }
        if let Some((name, first)) = of_others(others, width, is) {
            return Some(format!("the weight is that of {name} from channel {first} on"));
        }
        self.some(others)
    }

    /// Channels that have another weight, where most have the right one.
    fn some(&self, others: &[(String, Array1<f64>)]) -> Option<String> {
        // The factor that all have in common: that of most of them.
        let mut factors: Vec<f64> = self.v.iter().zip(self.w).map(|(v, w)| w / v).collect();
        factors.sort_by(f64::total_cmp);
        let factor = factors[factors.len() / 2];
        let is_other = |j: &usize| !self.are(factor, *j, &self.w.slice(s![*j..=*j]).to_owned());
        let other: Vec<usize> = (0..self.v.len()).filter(is_other).collect();
        let (first, last) = (*other.first()?, *other.last()?);
        if 2 * other.len() >= self.v.len() {
            return None;
        }
        // One number is that of some channel or other.
        let found = of_others(others, last + 1 - first, |w| self.are(factor, first, w)).filter(|_| last > first);
        if let Some((name, from)) = found {
            return Some(format!("channels {first} to {last} have the weight of {name} from channel {from} on"));
        }
        let each = other.iter().map(|j| format!("{:.4} for {:.4} in channel {j}", factor * self.v[*j], self.w[*j]));
        Some(format!("{} of {} channels have another weight: {}", other.len(), self.v.len(), listed(each)))
    }
}

/// The weight, and the channel of it, from which on so many channels are what is looked for.
fn of_others(
    others: &[(String, Array1<f64>)],
    width: usize,
    is: impl Fn(&Array1<f64>) -> bool,
) -> Option<(&str, usize)> {
    others.iter().find_map(|(name, w)| {
        let mut firsts = 0..(w.len() + 1).saturating_sub(width);
        firsts.find(|first| is(&w.slice(s![*first..first + width]).to_owned())).map(|first| (&name[..], first))
    })
}
