//! A function of one number that groups of values follow, but for a number of each group's own.
//!
//! ```text
//! yᵢⱼ = g(xᵢⱼ) + cᵢ        solved for g, straight lines between places
//! ```
//!
//! as where a function's values are divided by their sum, in logarithms. What half of the groups say is held to the other half.

use nalgebra::{DMatrix, DVector};

/// An x and its y.
pub(super) type Point = [f64; 2];

/// Places between which the function is straight, the fewest first.
const PLACES: [usize; 4] = [4, 8, 16, 32];

/// Points for each place, at least.
const POINTS: usize = 4;

/// What may be left of the squares of the half that was not fitted: of independent errors all of it is.
const LEFT: f64 = 0.1;

/// What is added to the diagonal of the normal equations, of its largest element: one number of the function is no matter.
const RIDGE: f64 = 1e-9;

/// The function.
pub(super) struct Curve {
    /// The places and its values there, about a mean of 0.
    pub(super) places: Vec<Point>,
}

impl Curve {
    /// Of fewest places, if there is one that holds.
    pub(super) fn of(groups: &[Vec<Point>]) -> Option<Curve> {
        let mut all: Vec<f64> = groups.iter().flatten().map(|[x, _]| *x).collect();
        all.sort_by(f64::total_cmp);
        let halves = |first: usize| groups.iter().skip(first).step_by(2);
        for count in PLACES {
            let mut places: Vec<f64> =
                (0..count).filter_map(|i| all.get(i * all.len().saturating_sub(1) / (count - 1)).copied()).collect();
            places.dedup();
            if all.len() < POINTS * count || places.len() < 3 {
                return None;
            }
            let held = |fitted: usize, other: usize| {
                let values = fit(&mut halves(fitted), &places)?;
                (left(&mut halves(other), &places, &values) <= LEFT).then_some(())
            };
            if held(0, 1).and_then(|()| held(1, 0)).is_some() {
                let values = fit(&mut groups.iter(), &places)?;
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                return Some(Curve { places: places.into_iter().zip(values).map(|(x, y)| [x, y - mean]).collect() });
            }
        }
        None
    }

    /// Where the function is least, and where it is most.
    pub(super) fn ends(&self) -> Option<[Point; 2]> {
        let least = self.places.iter().min_by(|a, b| a[1].total_cmp(&b[1]))?;
        let most = self.places.iter().max_by(|a, b| a[1].total_cmp(&b[1]))?;
        Some([*least, *most])
    }
}

/// The two places that an x is between, and what each counts.
fn shares(x: f64, places: &[f64]) -> [(usize, f64); 2] {
    let next = places.partition_point(|place| *place <= x).clamp(1, places.len() - 1);
    let along = ((x - places[next - 1]) / (places[next] - places[next - 1])).clamp(0.0, 1.0);
    [(next - 1, 1.0 - along), (next, along)]
}

/// The function's values at places, by least squares of what groups have about their means.
fn fit(groups: &mut dyn Iterator<Item = &Vec<Point>>, places: &[f64]) -> Option<Vec<f64>> {
    let k = places.len();
    let (mut squares, mut along) = (DMatrix::zeros(k, k), DVector::zeros(k));
    for group in groups.filter(|group| group.len() > 1) {
        let (mut mean, mut mean_y) = (DVector::<f64>::zeros(k), 0.0);
        for [x, y] in group {
            let own = shares(*x, places);
            for (i, a) in own {
                for (j, b) in own {
                    squares[(i, j)] += a * b;
                }
                along[i] += a * y;
                mean[i] += a;
            }
            mean_y += y;
        }
        let n = group.len() as f64;
        squares -= &mean * mean.transpose() / n;
        along -= &mean * (mean_y / n);
    }
    let largest = (0..k).map(|i| squares[(i, i)]).fold(0.0, f64::max);
    (0..k).for_each(|i| squares[(i, i)] += RIDGE * largest);
    (largest > 0.0).then_some(())?;
    Some(squares.cholesky()?.solve(&along).iter().copied().collect())
}

/// What the function leaves of the squares of groups about their means.
fn left(groups: &mut dyn Iterator<Item = &Vec<Point>>, places: &[f64], values: &[f64]) -> f64 {
    let (mut total, mut left) = (0.0, 0.0);
    for group in groups.filter(|group| group.len() > 1) {
        let n = group.len() as f64;
        let rest = |[x, y]: &Point| y - shares(*x, places).iter().map(|(i, share)| share * values[*i]).sum::<f64>();
        let mean = group.iter().map(|[_, y]| y).sum::<f64>() / n;
        let mean_rest = group.iter().map(rest).sum::<f64>() / n;
        total += group.iter().map(|[_, y]| (y - mean).powi(2)).sum::<f64>();
        left += group.iter().map(|point| (rest(point) - mean_rest).powi(2)).sum::<f64>();
    }
    if total > 0.0 { left / total } else { f64::INFINITY }
}
