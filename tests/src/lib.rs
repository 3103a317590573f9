//! What the tests share: [`strategy`] draws cases, [`values`] fills them, [`quantized`] with weights in E4M3; [`simulated`] computes as devices do and
//! [`tensor_core`] as theirs do; [`device`] opens the devices there are, [`exercise`] runs each kernel there; [`memory`]
//! keeps a small model, [`probes`] look into it; [`position`] makes values that tell where they are, [`mistaken`] known
//! mistakes, [`seen`] candidates that show something else; [`released`] makes models of few layers and
//! heads; [`judge`] and [`bounds`] hold results against their bounds; [`repository`] reads the project's own files,
//! [`compiler`] is NVIDIA's, and [`server`] one of objects.

pub mod bounds;
pub mod compiler;
pub mod cuts;
pub mod device;
pub mod exercise;
pub mod judge;
pub mod memory;
pub mod mistaken;
pub mod position;
pub mod probes;
pub mod quantized;
pub mod released;
pub mod repository;
pub mod seen;
pub mod server;
pub mod simulated;
pub mod strategy;
pub mod tensor_core;
pub mod torch;
pub mod values;
pub mod witness;
