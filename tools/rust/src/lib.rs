//! Proves a fast implementation of MiniMax-M2 or M3 right in a Rust test, or names the operator that is wrong.
//!
//! It is the library behind the `parity` command line: what a test says is what `parity verify` says.
//!
//! # A test
//!
//! A model is a folder in the hub's format, or a built-in case's name. What is verified is a dump (a `.safetensors`, `.npz` or
//! `.pt` file, or a folder of those or of `.npy` files) or tensors in memory, under the names of the transformers library's
//! modules. Rows are tokens: \[T, …\] or \[1, T, …\] for one request, \[B, T, …\] for a batch.
//!
//! The values here are those of a built-in case, so that the example runs as it is; a port's own engine stands in the place of
//! [`reference()`].
//!
//! ```
//! use parity::{Conclusion, Denied, Tensors, assert_parity, reference, verify};
//!
//! # fn main() -> Result<(), parity::Failure> {
//! // Tensors by their names: what went into the query norm of a layer, and what came out of it.
//! let sites = ["layers.1.self_attn.q_proj", "layers.1.self_attn.q_norm"];
//! let values: Tensors = reference("m2-gqa3-f32", &sites)?;
//!
//! // A folder as an engine writes it.
//! let folder = std::env::temp_dir().join(format!("parity-example-{}", std::process::id()));
//! values.save(&folder)?;
//! let report = assert_parity!("m2-gqa3-f32", &folder, precision = "f32", deny = Denied::Suspicious);
//! assert_eq!(report.conclusion(), Conclusion::Pass);
//!
//! // A query norm that is a tenth too large is a fault, and the first one that the report names.
//! let wrong = values.map("model.layers.1.self_attn.q_norm", |x| 1.1 * x)?;
//! let report = verify("m2-gqa3-f32", wrong).precision("f32").report()?;
//! assert_eq!(report.faults()[0].site.to_string(), "model.layers.1.self_attn.q_norm");
//! # std::fs::remove_dir_all(folder).expect("it was made above");
//! # Ok(())
//! # }
//! ```
//!
//! A test that fails shows the terminal's report. Options are the methods of [`Verification`]: `tokens = &ids`,
//! `require = "all"`, `html = "report.html"`, `diagnosed = true`, …
//!
//! # In another crate
//!
//! ```toml
//! [dev-dependencies]
//! parity = { git = "…", package = "parity" }
//! ```
//!
//! It compiles the CUDA path's emulated device, too, which needs a C++ compiler; and it wants to be optimized in tests, where
//! numerical code is slow otherwise: `[profile.dev.package."*"] opt-level = 3`.
//!
//! Reading order: [`verify`] and [`Verification`], what is asked; [`Candidate`] and [`Tensors`], of what; [`Report`], the answer.

mod candidate;
mod report;
mod tensors;
mod verification;

pub use candidate::Candidate;
pub use report::Report;
pub use tensors::{Element, Tensors, reference};
pub use tools::failure::Failure;
pub use tools::judge::lens::Lens;
pub use tools::judge::verdict::{SiteReport, Verdict};
pub use tools::report::content::Conclusion;
pub use tools::report::demands::Denied;
pub use verification::{Tokens, Verification, verify};

/// Demands that a candidate is right: `assert_parity!(model, candidate, option = value, …)`, where the options are the methods
/// of [`Verification`]. It is a [`Report`], which has no fault.
///
/// # Panics
///
/// With the report as on a terminal, where it fails; and with what to do, where there is no report.
///
/// ```no_run
/// # use parity::{Tensors, assert_parity};
/// # fn my_engine(_: &[u32]) -> Tensors { Tensors::new() }
/// # let ids = [1, 2, 3];
/// assert_parity!("MODEL", "dump.safetensors");
/// assert_parity!("MODEL", my_engine(&ids), tokens = &ids, require = "all", diagnosed = true);
/// ```
#[macro_export]
macro_rules! assert_parity {
    ($model:expr, $candidate:expr $(, $option:ident = $value:expr)* $(,)?) => {
        $crate::verify($model, $candidate)$(.$option($value))*.demand()
    };
}
