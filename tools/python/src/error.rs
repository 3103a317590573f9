//! What is raised: the command line's message, and what to do.

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use tools::failure::Failure;

create_exception!(
    parity,
    ParityError,
    PyException,
    "What keeps parity from an answer: bad arguments, unreadable input, nothing compared.\n\n\
     Its text is the message and the help of the command line; `problem` and `help` are the two apart, `help` None where there is \
     none."
);

/// A failure as an exception.
pub(crate) fn raised(py: Python<'_>, failure: &Failure) -> PyErr {
    let (problem, help) = (failure.to_string(), failure.advice());
    let text = help.map_or_else(|| problem.clone(), |help| format!("{problem}\nhelp: {help}"));
    let error = ParityError::new_err(text);
    let told = error.value(py);
    match told.setattr("problem", problem).and_then(|()| told.setattr("help", help)) {
        Ok(()) => error,
        Err(other) => other,
    }
}
