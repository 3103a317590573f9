//! The emulated device: what it computes, what it finds, and in which orders.

pub(crate) mod conformance;
pub(crate) mod counts;
pub(crate) mod fault_kernels;
mod faults;
pub(crate) mod mma;
mod model;
mod schedules;
mod timing;
mod warpgroups;
