//! Tunes the kernels' launch parameters by the loop of document 003: analyse, plan, modify, evaluate, keep or revert.
//!
//! [`space`] has the parameters of an operator; [`plan`] says what to change next, and why; [`prove`] demands that a candidate
//! gives the exact twin's bits, race-free; [`cost`] is what a candidate is scored by on the emulated device, with what
//! [`registers`] knows; [`subject`] does both on a device; [`evolve`] is the loop, and [`history`] what it remembers. The rule
//! by which a candidate is kept is `reference::evolution`'s.

pub mod cost;
pub mod evolve;
pub mod history;
pub mod plan;
pub mod prove;
pub mod registers;
pub mod space;
pub mod subject;
