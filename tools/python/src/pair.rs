//! Two tensors of one name.

use pyo3::prelude::*;
use tools::compare::difference;
use tools::compare::metrics::Metrics;

/// How two tensors of one name differ. Figures are None where the shapes differ.
#[pyclass(frozen, get_all, module = "parity")]
pub(crate) struct Pair {
    /// The name in both.
    name: String,
    /// The shape in each, without axes of 1 before it.
    shapes: (Vec<usize>, Vec<usize>),
    /// Elements.
    count: Option<usize>,
    /// How many of them differ.
    unequal: Option<usize>,
    /// The index of the first that does.
    first_unequal: Option<Vec<usize>>,
    /// The largest |a − b|.
    max_absolute: Option<f64>,
    /// The index of that.
    worst: Option<Vec<usize>>,
    /// RMS(a − b) / RMS(b).
    relative: Option<f64>,
    /// Cosine of the angle between the two.
    cosine: Option<f64>,
    /// NaN in each.
    nan: Option<(usize, usize)>,
    /// Infinities in each.
    infinite: Option<(usize, usize)>,
}

impl Pair {
    pub(crate) fn of(pair: &difference::Pair) -> Self {
        let [a, b] = pair.shapes.clone();
        let metrics = pair.metrics.as_ref();
        let both = |figure: fn(&Metrics) -> [usize; 2]| metrics.map(|metrics| figure(metrics).into());
        Pair {
            name: pair.name.clone(),
            shapes: (a, b),
            count: metrics.map(|metrics| metrics.count),
            unequal: metrics.map(|metrics| metrics.unequal),
            first_unequal: metrics.and_then(|metrics| metrics.first_unequal).map(|flat| pair.index(flat)),
            max_absolute: metrics.map(|metrics| metrics.max_absolute),
            worst: metrics.and_then(|metrics| metrics.worst).map(|flat| pair.index(flat)),
            relative: pair.relative(),
            cosine: metrics.map(|metrics| metrics.cosine),
            nan: both(|metrics| metrics.nan),
            infinite: both(|metrics| metrics.infinite),
        }
    }
}

#[pymethods]
impl Pair {
    fn __repr__(&self) -> String {
        let told = match (self.unequal, self.count, self.relative) {
            (Some(0), Some(_), _) => "equal".to_owned(),
            (Some(unequal), Some(count), Some(relative)) => {
                format!("{unequal} of {count} values differ, relative {relative:.1e}")
            }
            _ => format!("shapes differ, {:?} and {:?}", self.shapes.0, self.shapes.1),
        };
        format!("<parity.Pair {}: {told}>", self.name)
    }
}
