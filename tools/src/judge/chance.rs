//! How often an error that is normal around 0 leads to something else.

use statrs::function::erf::erfc;

/// P(|e| > d) for e of standard deviation σ.
pub(super) fn beyond(d: f64, sigma: f64) -> f64 {
    if sigma > 0.0 { erfc(d.max(0.0) / (sigma * std::f64::consts::SQRT_2)) } else { 0.0 }
}
