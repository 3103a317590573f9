//! Kernels: which there are, their sources, and what a device runs.

pub mod alternatives;
pub(crate) mod embedded;
pub mod instructions;
mod sources;
pub(crate) mod stated;
pub mod table;
mod variant;

pub use sources::Sources;
pub use table::Kernel;

impl Kernel {
    /// The name of its file.
    pub fn file(&self) -> String {
        format!("{}.cu", self.op)
    }
}
