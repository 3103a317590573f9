//! Frequencies that are scaled for longer contexts than a model was trained on.
//!
//! ```text
//! f′ = (1 − γ)·f + γ·f/s
//! yarn     γᵢ = clamp((i − a)/(b − a), 0, 1)        a = ⌊i(32)⌋, b = ⌈i(1)⌉ within 0..r;  i(n) = r·ln(L/2πn)/(2·ln θ)
//! llama3   γᵢ = clamp((4 − L·fᵢ/2π)/3, 0, 1)
//! ```
//!
//! with frequencies fᵢ of r rotated channels, s the factor and L the length that it was trained on. `YaRN` also multiplies cosines and
//! sines by 1 + 0.1·ln s, which a port may leave out.

use std::f64::consts::TAU;
use std::fmt;
use std::str::FromStr;

use strum::{Display, EnumString, VariantNames};

/// How often a pair turns within the length that a model was trained on, from which on `YaRN` leaves it as it is, and up to which all of
/// it is divided.
const TURNS: [f64; 2] = [32.0, 1.0];

/// The same of Llama 3.
const LLAMA_TURNS: [f64; 2] = [4.0, 1.0];

/// What frequencies are scaled by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Stretch {
    /// `YaRN`, with its factor of cosines and sines.
    Yarn,
    /// `YaRN` without that.
    YarnPlain,
    /// Llama 3.
    Llama3,
}

/// A stretch of positions: `yarn:4/4096`, by a factor, from the length that a model was trained on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RopeScaling {
    /// What kind.
    pub by: Stretch,
    /// s.
    pub factor: f64,
    /// L.
    pub original: usize,
}

impl RopeScaling {
    /// By what cosines and sines are multiplied.
    pub fn scale(&self) -> f64 {
        if self.by == Stretch::Yarn { 1.0 + 0.1 * self.factor.ln() } else { 1.0 }
    }

    /// f′ of frequencies of so many rotated channels and base θ.
    pub fn of(&self, frequencies: &[f32], rotary_dim: usize, theta: f64) -> Vec<f64> {
        let length = self.original as f64;
        let place = |turns: f64| rotary_dim as f64 * (length / (TAU * turns)).ln() / (2.0 * theta.ln());
        let [first, last] = TURNS.map(place);
        let (first, last) = (first.floor().max(0.0), last.ceil().min(rotary_dim as f64 - 1.0));
        let [most, least] = LLAMA_TURNS;
        let divided = |i: usize, f: f64| match self.by {
            // Where both are one pair, those behind it are divided, as the original has it.
            Stretch::Yarn | Stretch::YarnPlain => (i as f64 - first) / if first == last { 1e-3 } else { last - first },
            Stretch::Llama3 => (most - length * f / TAU) / (most - least),
        };
        let scaled = |(i, f): (usize, &f32)| {
            let f = f64::from(*f);
            let share = divided(i, f).clamp(0.0, 1.0);
            (1.0 - share) * f + share * f / self.factor
        };
        frequencies.iter().enumerate().map(scaled).collect()
    }
}

impl fmt::Display for RopeScaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}/{}", self.by, self.factor, self.original)
    }
}

impl FromStr for RopeScaling {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let expected = || format!("expected one of {}, as yarn:4/4096", Stretch::VARIANTS.join(", "));
        let (by, numbers) = s.split_once(':').ok_or_else(expected)?;
        let (factor, original) = numbers.split_once('/').ok_or_else(expected)?;
        let by = by.parse().map_err(|_| expected())?;
        let factor = factor.parse().ok().filter(|factor: &f64| factor.is_finite() && *factor > 0.0);
        let original = original.parse().ok().filter(|original| *original > 0);
        let (factor, original) = factor.zip(original).ok_or_else(expected)?;
        Ok(RopeScaling { by, factor, original })
    }
}
