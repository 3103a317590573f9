//! Kernels: which there are, their sources, and what a device runs.

pub(crate) mod cubin;
mod sources;
pub mod table;

pub use sources::Sources;
pub use table::Kernel;

use crate::emulated::Form;

/// What the build script made: the emulated driver, the kernels' sources, and their images.
pub(crate) mod embedded {
    include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
}

impl Kernel {
    /// The name of its file.
    pub fn file(&self) -> String {
        format!("{}.cu", self.op)
    }

    /// Its image for the emulated device, if the build made one: if it is in [`table::KERNELS`].
    pub fn image(&self, form: Form) -> Option<&'static [u8]> {
        let position = table::KERNELS.iter().position(|kernel| kernel == self)?;
        embedded::IMAGES.get(position).map(|images| images[form.ordinal()])
    }
}
