//! Numbers that were fitted to values.

use std::fmt;

use serde::Serialize;

/// A number and three standard deviations of it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fit {
    /// The number.
    pub value: f64,
    /// How far it may be off.
    pub error: f64,
}

/// A parameter as values have it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fitted {
    /// Its name.
    pub parameter: &'static str,
    /// The value, and three standard deviations of it.
    pub fit: Fit,
    /// What the configuration says.
    pub configured: f64,
}

/// "1.0100 ± 0.0003", "1.00e-5 ± 0.02e-5".
impl fmt::Display for Fit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fit { value, error } = *self;
        if !value.is_finite() || !error.is_finite() || value == 0.0 {
            return write!(f, "{value} ± {error:.1e}");
        }
        let size = value.abs().log10().floor();
        let power = if (-3.0..6.0).contains(&size) { 0.0 } else { size };
        let scale = 10_f64.powf(power);
        // As many digits as the error's first.
        let digits = (-(error / scale).log10().floor()).clamp(0.0, 9.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 9")]
        let digits = digits as usize;
        let shown = (error / scale).max(10_f64.powi(-9));
        let unit = if power == 0.0 { String::new() } else { format!("e{power}") };
        write!(f, "{:.digits$}{unit} ± {shown:.digits$}{unit}", value / scale)
    }
}
