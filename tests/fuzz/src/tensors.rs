//! Files of tensors.

use std::borrow::Cow;
use std::path::Path;

use fixtures::formats;
use fixtures::{Dtype, Error, Tensor};

/// Elements of each tensor that are widened.
const LOOKED_AT: usize = 1024;

/// A `.safetensors` file: its header, and the tensors that it speaks of.
pub fn safetensors(bytes: &[u8]) {
    let Some(header) = accepted(formats::safetensors::header(Path::new("x.safetensors"), bytes)) else { return };
    for entry in header.entries {
        look(entry.dtype, &entry.shape, bytes[entry.range].into());
    }
}

/// A `.npy` file.
pub fn npy(bytes: &[u8]) {
    let Some(header) = accepted(formats::npy::header(Path::new("x.npy"), "x", bytes)) else { return };
    let elements = &bytes[header.begin..];
    if elements.len() == header.size {
        let elements = header.order.normalize(elements.into(), &header.shape, header.dtype.size());
        look(header.dtype, &header.shape, elements);
    }
}

/// A `.npz` file: its directory, and each array, inflated if need be.
pub fn npz(bytes: &[u8]) {
    let path = Path::new("x.npz");
    let Some(contents) = accepted(formats::npz::contents(path, bytes)) else { return };
    for member in contents.members {
        if let Some(elements) = accepted(member.elements(path, bytes)) {
            let formats::npy::Header { dtype, shape, order, .. } = &member.header;
            look(*dtype, shape, order.normalize(elements, shape, dtype.size()));
        }
    }
}

/// A `.pt` file: its pickle, and each tensor that it describes.
pub fn torch(bytes: &[u8]) {
    let Some(saved) = accepted(formats::torch::contents(Path::new("x.pt"), bytes)) else { return };
    for tensor in saved {
        look(tensor.dtype, &tensor.shape, tensor.elements(bytes));
    }
}

/// What was read; what was refused says why and what to do.
fn accepted<T>(read: Result<T, Error>) -> Option<T> {
    read.map_err(|error| assert!(!error.to_string().is_empty() && !error.help().is_empty())).ok()
}

/// Widens the first elements of a tensor, which its header and its bytes must agree on.
fn look(dtype: Dtype, shape: &[usize], bytes: Cow<'_, [u8]>) {
    let size = dtype.bytes_of(shape);
    let found = bytes.len();
    let tensor = Tensor::new(dtype, shape, bytes).unwrap_or_else(|| panic!("{found} bytes, expected {size:?}"));
    let mut values = vec![0.0_f32; tensor.len().min(LOOKED_AT)];
    tensor.values_into(0, &mut values);
}
