//! A mistake that explains a fault.

use pyo3::prelude::*;
use tools::diagnose::diagnosis::Explained;

use crate::site::Site;

/// A mistake that explains a fault.
#[pyclass(frozen, get_all, module = "parity")]
pub(crate) struct Mistake {
    /// Its name.
    name: String,
    /// How it is made.
    way: String,
    /// What it does.
    about: String,
    /// What is right.
    right: String,
    /// The layers of which more is right under it; none where the fault is in no layer.
    layers: Vec<usize>,
    /// Other mistakes that explain as much.
    equivalent: Vec<String>,
    /// Values at the fault's site that are the candidate's twin's, bit for bit, of so many: with the mistake. None where that is not
    /// counted.
    reproduced: Option<(usize, usize)>,
    /// The request, from 0.
    request: usize,
    /// The fault.
    fault: Py<Site>,
}

impl Mistake {
    pub(crate) fn of(py: Python<'_>, request: usize, explained: &Explained) -> PyResult<Self> {
        Ok(Mistake {
            name: explained.name.to_owned(),
            way: explained.way.clone(),
            about: explained.about.to_owned(),
            right: explained.right.to_owned(),
            layers: explained.layers.clone(),
            equivalent: explained.equivalent.clone(),
            reproduced: explained.reproduced.map(|[_, under]| (under.equal, under.count)),
            request,
            fault: Py::new(py, Site::of(request, &explained.fault))?,
        })
    }
}

#[pymethods]
impl Mistake {
    fn __repr__(&self) -> String {
        format!("<parity.Mistake {} ({})>", self.name, self.way)
    }
}
