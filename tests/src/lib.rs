//! What the tests share: [`strategy`] draws cases, [`simulated`] computes as devices do, [`judge`] holds a result against
//! its bound.

pub mod judge;
pub mod simulated;
pub mod strategy;
