//! A head's key that is rotated by another position than its own.

use ndarray::Array1;
use reference::config::Config;
use reference::ops::rope::inverse_frequencies;

/// A key, turned on by the angles of so many positions.
pub(super) fn on(key: &Array1<f64>, by: isize, config: &Config) -> Array1<f64> {
    let half = config.rotary_dim / 2;
    let mut turned = key.clone();
    for (i, f) in inverse_frequencies(config.rope_theta, config.rotary_dim, config.rotary_dim).iter().enumerate() {
        let (sin, cos) = (by as f64 * f64::from(*f)).sin_cos();
        let (a, b) = (key[i], key[i + half]);
        (turned[i], turned[i + half]) = (a * cos - b * sin, b * cos + a * sin);
    }
    turned
}
