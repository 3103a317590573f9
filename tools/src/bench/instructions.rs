//! Instructions of a device next to the emulated device's, bit for bit.

use std::env;
use std::process::Command;

use optimized::conformance::{Given, given};
use optimized::device::{DeviceChoice, Gpu};
use optimized::emulated::Form;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// How one of them compares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// Which, and of what.
    pub name: String,
    /// Words of 32 bits that it wrote.
    pub words: usize,
    /// Those of them that differ.
    pub different: usize,
    /// The first of these: where, what the device gave, and what the emulated device gave.
    pub first: Option<(usize, u32, u32)>,
}

/// How all of them compare.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Instructions {
    /// The device.
    pub device: String,
    /// What it was compared with.
    pub with: String,
    /// Each that the device has.
    pub compared: Vec<Compared>,
    /// Names of those that it lacks.
    pub lacking: Vec<String>,
}

impl Instructions {
    /// Whether all gave the same.
    pub fn agree(&self) -> bool {
        self.compared.iter().all(|compared| compared.different == 0)
    }
}

/// An instruction, and what it wrote.
type Named = (String, Vec<u32>);

/// What instructions gave, as it is handed from process to process.
#[derive(Debug, Serialize, Deserialize)]
pub struct Handed(Vec<Named>);

impl Handed {
    /// Of a device.
    pub fn of(gpu: &Gpu) -> Result<Self, Failure> {
        Ok(Handed(given(gpu)?.into_iter().map(|Given { name, bits }| (name, bits)).collect()))
    }
}

/// Compares a device's with the emulated device's: on a GPU, with those that another process of this program says.
pub fn compared(gpu: &Gpu) -> Result<Instructions, Failure> {
    let own = Handed::of(gpu)?;
    let (others, with) = if gpu.form().is_some() {
        let other = Gpu::open(DeviceChoice::Emulated(Form::Fast))?;
        (Handed::of(&other)?, format!("itself, {}", other.name()))
    } else {
        (of_emulated()?, "the emulated device".to_owned())
    };
    let (compared, lacking) = differences(&own, &others)?;
    Ok(Instructions { device: gpu.name().to_owned(), with, compared, lacking })
}

/// Each of what a device gave next to what others gave, and the names of what they alone did: of instructions that it lacks.
pub fn differences(own: &Handed, others: &Handed) -> Result<(Vec<Compared>, Vec<String>), Failure> {
    let is_own = |(name, _): &&Named| own.0.iter().any(|(known, _)| known == name);
    let (others, lacking): (Vec<_>, Vec<_>) = others.0.iter().partition(is_own);
    let alike =
        |((name, bits), (other, bits_there)): (&Named, &&Named)| name == other && bits.len() == bits_there.len();
    if own.0.len() != others.len() || !own.0.iter().zip(&others).all(alike) {
        return Err(Failure::new("the emulated device ran other instructions than this device")
            .help("both are of one build of parity: build it again"));
    }
    let compare = |(name, own): &Named, others: &[u32]| {
        let mut different = own.iter().zip(others).enumerate().filter(|(_, (own, other))| own != other);
        let first = different.next().map(|(place, (&own, &other))| (place, own, other));
        let different = different.count() + usize::from(first.is_some());
        Compared { name: name.clone(), words: own.len(), different, first }
    };
    let compared = own.0.iter().zip(others).map(|(own, (_, others))| compare(own, others)).collect();
    Ok((compared, lacking.into_iter().map(|(name, _)| name.clone()).collect()))
}

/// What instructions give on the emulated device: this process drives a GPU, so another one is asked.
fn of_emulated() -> Result<Handed, Failure> {
    let failed = |problem: String| {
        Failure::new(format!("the emulated device's instructions: {problem}")).help(
            "parity bench --device emulated --instructions - shows what it says; --no-instructions leaves them out",
        )
    };
    let program = env::current_exe().map_err(|error| failed(error.to_string()))?;
    let mut command = Command::new(program);
    command.args(["bench", "--quiet", "--device", "emulated", "--instructions", "-"]);
    let output = command.output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}
