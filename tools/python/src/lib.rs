//! `parity._native`: the library as a Python module. What people call is in `parity/*.py`, which hands over plain values.
//!
//! Reading order: `working`, how work waits for signals; `tensors` and `given`, what is handed over; `verify`, `diagnose`, `diff`,
//! `run` and `probe`, a call each, and `report`, `site`, `mistake` and `pair`, what they return; `error`, what is raised.

mod diagnose;
mod diff;
mod error;
mod given;
mod mistake;
mod pair;
mod probe;
mod report;
mod run;
mod site;
mod tensors;
mod verify;
mod working;

/// The module.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use super::diagnose::{Diagnosis, diagnose};
    #[pymodule_export]
    use super::diff::{Difference, diff};
    #[pymodule_export]
    use super::error::ParityError;
    #[pymodule_export]
    use super::mistake::Mistake;
    #[pymodule_export]
    use super::pair::Pair;
    #[pymodule_export]
    use super::probe::{Probe, probe};
    #[pymodule_export]
    use super::report::Report;
    #[pymodule_export]
    use super::run::run;
    #[pymodule_export]
    use super::site::Site;
    #[pymodule_export]
    use super::verify::verify;
}
