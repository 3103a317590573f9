//! The emulated device: what it computes, what it finds, and in which orders.

mod conformance;
mod fault_kernels;
mod faults;
mod mma;
mod schedules;
