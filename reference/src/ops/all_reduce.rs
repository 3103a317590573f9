//! All-reduce: adds up what ranks made of a product, each of its own columns of the input, or of a sum of experts.
//!
//! ```text
//! yᵢⱼ = Σᵣ pᵣᵢⱼ        pᵣ = x(r)·w(r)ᵀ, of rank r's columns; or rank r's part of moe(x): of its experts, or its channels of all
//! ```
//!
//! - Shapes: pᵣ and y \[n, m\], r < R.
//! - Dtypes: pᵣ and y bf16; each sum of two f32.
//! - Rounding: R1 at each sum of two, in the order of ranks; for R = 2 any order is this one.
//! - Errors: C1 R ≥ 1; C2 the shapes of all pᵣ are equal.
//! - Variants: none.
//! - Source: `RowParallelLinear` in vLLM 0.33 and `SGLang` 0.5.23, `RowwiseParallel` in transformers 5.23 (spec A17 has what they
//!   fuse it with). A ring adds in another order for each part of y, and one that adds in f32 rounds once: the bound holds for all.

use ndarray::{Array2, Zip};

use crate::bound::ErrorBound;
use crate::error::require;
use crate::parallel::{self, ELEMENT};
use crate::tracked::Tracked;
use crate::{ContractError, Real, Rounding, RoundingContract};

/// Parameters.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AllReduce {
    /// R1.
    pub output: Rounding,
    /// u of a sum.
    pub unit: f64,
}

/// y of all pᵣ.
pub fn all_reduce<T: Real>(p: &AllReduce, parts: &[Tracked<T>]) -> Result<Array2<T>, ContractError> {
    p.check(&parts.iter().map(Tracked::dim).collect::<Vec<_>>())?;
    let mut y = parts[0].value.clone();
    for part in &parts[1..] {
        let elements = ELEMENT * y.len();
        parallel::for_each(y.rows_mut().into_iter().zip(part.value.rows()), elements, |(y, part)| {
            Zip::from(y).and(part).for_each(|y, &part| *y = p.output.round(*y + part)); // R1
        });
    }
    Ok(y)
}

impl AllReduce {
    /// Under a contract.
    pub fn under(contract: &RoundingContract) -> Self {
        AllReduce { output: contract.stored(), unit: contract.unit() }
    }

    /// C1 and C2.
    pub fn check(&self, parts: &[(usize, usize)]) -> Result<(), ContractError> {
        require(!parts.is_empty(), "all_reduce C1", "R", 0, "at least 1")?;
        let other = parts.iter().find(|part| **part != parts[0]).unwrap_or(&parts[0]);
        require(*other == parts[0], "all_reduce C2", "shape of a part", format!("{other:?}"), format!("{:?}", parts[0]))
    }

    /// With eᵣ the errors of pᵣ, s = Σ(|pᵣ| + eᵣ), which no sum of some of them exceeds, and u of the sum and of R1 together:
    /// |ŷ − y| ≤ Σeᵣ + ((1 + u)^(R − 1) − 1)·s, and what underflows at each of R − 1 roundings.
    pub fn bound(&self, parts: &[Tracked<f64>]) -> ErrorBound {
        let errors: Vec<ErrorBound> = parts.iter().map(Tracked::error_or_exact).collect();
        let mut error = errors[1..].iter().fold(errors[0].clone(), |all, error| all.plus(error));
        let mut s = error.certain.clone();
        for part in parts {
            s.zip_mut_with(&part.value, |s, y| *s += y.abs());
        }
        let sums = parts.len() - 1;
        let u = self.unit + self.output.storage.unit_roundoff() * (1.0 + self.unit);
        let grown = (1.0 + u).powi(i32::try_from(sums).expect("few ranks")) - 1.0;
        let (underflow, each) = (sums as f64 * self.output.storage.underflow(), u * (sums as f64 / 3.0).sqrt());
        Zip::from(&mut error.certain).and(&mut error.sigma).and(&s).for_each(|certain, sigma, &s| {
            *certain += grown * s + underflow;
            *sigma = (sigma.powi(2) + (each * s).powi(2)).sqrt().min(*certain);
        });
        error
    }
}
