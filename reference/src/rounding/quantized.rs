//! Inputs of products with quantized matrices, quantized themselves: groups of channels of a row, each with a scale.

use ndarray::{Array2, Axis, Zip};

use super::choices::Inputs;
use crate::bound::ErrorBound;
use crate::storage::{Mode, power_above};
use crate::{Real, Rounding, Storage, Tracked};

/// What a largest magnitude is taken for at least.
const LEAST: f32 = 1e-10;

/// Roundings in f32 on the way of an input into a sum: of the scale, of the division by it, and of the products with both scales.
const STEPS: f64 = 6.0;

impl Inputs {
    /// The scale of a group: a/448 in f32, or the power of two above it.
    #[expect(clippy::cast_possible_truncation, reason = "scales are f32")]
    fn scale(self, largest: f64) -> f64 {
        let scale = f64::from((largest as f32).max(LEAST) / Storage::E4m3.largest() as f32);
        if self == Inputs::Fp8Powers { power_above(scale) } else { scale }
    }

    /// x\[n, k\], `group` channels of a row with a scale of their own: q = round(x/s), and q·s.
    #[must_use]
    pub fn quantized<T: Real>(self, x: &Array2<T>, group: usize, mode: Mode) -> Array2<T> {
        let mut quantized = x.clone();
        if self == Inputs::Stored {
            return quantized;
        }
        self.each(&mut quantized, group, |scale, x| {
            let code = Rounding { storage: Storage::E4m3, mode }.round(Storage::F32.nearest(x.wide() / scale));
            T::of(code * scale)
        });
        quantized
    }

    /// The same of values that the candidate has, too. How their scale is computed is not known to the last bit: a quotient that is
    /// as near to the middle of two codes may have become either.
    #[must_use]
    pub fn known<T: Real>(self, x: &Tracked<T>, group: usize) -> Tracked<T> {
        if self == Inputs::Stored {
            return x.clone();
        }
        let value = self.quantized(&x.value, group, Mode::Nearest);
        let off = STEPS * Storage::F32.unit_roundoff();
        let mut certain = x.value.mapv(T::wide);
        self.each(&mut certain, group, |scale, x| {
            let code = x / scale;
            Storage::E4m3.apart(code, off * code.abs()) * scale + off * x.abs()
        });
        let error = x.error.as_ref().map(|_| ErrorBound { sigma: &certain / 3.0_f64.sqrt(), certain, carried: 0 });
        Tracked { value, error }
    }

    /// x as it is, of which the error has one quantization in it.
    #[must_use]
    pub fn bounded<T: Real>(self, x: &Tracked<T>, group: usize) -> Tracked<T> {
        if self == Inputs::Stored {
            return x.clone();
        }
        let error = x.error.as_ref().map(|error| {
            let mut error = error.clone();
            let mut steps = Array2::zeros(x.dim());
            Zip::from(&mut steps)
                .and(&x.value)
                .and(&error.certain)
                .for_each(|step, x, delta| *step = x.wide().abs() + delta);
            // Half a step is 2⁻⁴ of a normal code at most, and 2⁻¹⁰ of the scale below.
            let relative = Storage::E4m3.unit_roundoff() + STEPS * Storage::F32.unit_roundoff();
            self.each(&mut steps, group, |scale, size| relative * size + Storage::E4m3.underflow() * scale);
            error.sigma.zip_mut_with(&steps, |sigma, step| *sigma = sigma.hypot(step / 3.0_f64.sqrt()));
            error.certain += &steps;
            error
        });
        Tracked { value: x.value.clone(), error }
    }

    /// Puts what `f` makes of a group's scale and an element of it in the place of each element.
    fn each<T: Real>(self, x: &mut Array2<T>, group: usize, f: impl Fn(f64, T) -> T) {
        for mut row in x.rows_mut() {
            for mut channels in row.axis_chunks_iter_mut(Axis(0), group) {
                let scale = self.scale(channels.fold(0.0, |most, x| x.wide().abs().max(most)));
                channels.mapv_inplace(|x| f(scale, x));
            }
        }
    }
}
