//! Tensors in Python's memory, looked at where they are.

use std::ptr::NonNull;

use fixtures::Dtype;
use fixtures::activations::source::HeldTensor;
use fixtures::bytes::Held;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A tensor as Python hands it over: its name, its type by [`Dtype`]'s name, its shape, and an array of its bytes in C order.
pub(crate) type Lent<'py> = (String, String, Vec<usize>, Bound<'py, PyAny>);

/// Bytes that an object of Python's owns.
struct Bytes {
    at: NonNull<[u8]>,
    /// Lives as long as the bytes are looked at.
    _owner: Py<PyAny>,
}

#[expect(unsafe_code, reason = "a pointer to what is only read may go to other threads")]
// SAFETY: the bytes are only read, and outlive their owner's last reference, which is here.
unsafe impl Send for Bytes {}

#[expect(unsafe_code, reason = "a pointer to what is only read may be shared between threads")]
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        #[expect(unsafe_code, reason = "what Python owns cannot be borrowed without its lock")]
        // SAFETY: the array is contiguous, and its owner, which is held, keeps it where it is: NumPy moves no array that others
        // refer to. Whoever changes it meanwhile gets other values, as whoever changes a file that is mapped, and every reader
        // takes bytes as they come.
        unsafe {
            self.at.as_ref()
        }
    }
}

/// A tensor, whose bytes stay where they are.
pub(crate) fn held((name, dtype, shape, array): Lent<'_>) -> PyResult<HeldTensor> {
    let known = Dtype::ALL.into_iter().find(|known| known.to_string() == dtype);
    let dtype = known.ok_or_else(|| PyValueError::new_err(format!("{name}: there is no type {dtype}")))?;
    let at = PyBuffer::<u8>::get(&array)?.as_slice_ptr();
    let at = at.ok_or_else(|| PyValueError::new_err(format!("{name}: its bytes are not one behind the other")))?;
    let bytes = Held::new(Bytes { at, _owner: array.unbind() });
    Ok(HeldTensor { name, dtype, shape, bytes })
}
