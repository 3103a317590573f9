//! What the tests share: [`strategy`] draws cases, [`simulated`] computes as devices do, [`memory`] keeps a small model,
//! [`probes`] look into it, [`judge`] holds a result against its bound.

pub mod judge;
pub mod memory;
pub mod probes;
pub mod simulated;
pub mod strategy;
