//! Registers of a kernel's threads: NVRTC's, or stated.

use std::collections::HashMap;
use std::path::Path;

use optimized::kernel::{Kernel, Sources};
use optimized::nvrtc::{Nvrtc, Resources};

use crate::failure::Failure;

/// The architecture that is compiled for.
const ARCHITECTURE: &str = "sm_90a";
/// Registers that a thread may have.
const MOST: u32 = 255;
/// Stated of a thread beside its sums.
const OTHERS: u32 = 64;

/// What is known of registers.
#[derive(Debug)]
pub struct Registers {
    nvrtc: Option<Nvrtc>,
    known: HashMap<Kernel, Vec<Resources>>,
}

impl Registers {
    /// By NVRTC, if it is at hand; if a folder is named, it must be there.
    pub fn find(folder: Option<&Path>) -> Result<Self, Failure> {
        let nvrtc = match (Nvrtc::find(folder), folder) {
            (Ok(nvrtc), _) => Some(nvrtc),
            (Err(error), Some(_)) => return Err(error.into()),
            (Err(_), None) => None,
        };
        Ok(Registers { nvrtc, known: HashMap::new() })
    }

    /// Where they are from, in words.
    pub fn source(&self) -> String {
        match self.nvrtc.map(|nvrtc| nvrtc.version()) {
            Some((major, minor)) => format!("by NVRTC {major}.{minor} for {ARCHITECTURE}"),
            None => format!("stated, not compiled: {OTHERS}, and two for each sum of a thread's tile"),
        }
    }

    /// Those of a thread of an entry; or why it is refused: its threads have too few, and spill.
    pub fn of(&mut self, kernel: &Kernel, entry: &str) -> Result<Result<u32, String>, Failure> {
        let Some(nvrtc) = self.nvrtc else { return Ok(stated(kernel, entry)) };
        let found = if let Some(found) = self.known.get(kernel) {
            found
        } else {
            let compiled = nvrtc.compile(kernel, &Sources::embedded(), ARCHITECTURE)?;
            &*self.known.entry(*kernel).or_insert(compiled.resources)
        };
        let Some(needs) = found.iter().find(|needs| needs.entry == entry) else { return Ok(stated(kernel, entry)) };
        Ok(match needs.spilled_bytes {
            0 => Ok(u32::try_from(needs.registers).unwrap_or(MOST)),
            bytes => Err(format!("{} {entry} spills {bytes} bytes of registers", kernel.label())),
        })
    }
}

/// A thread of a tile keeps two sums of each of its elements: of a chunk, and of all.
fn stated(kernel: &Kernel, entry: &str) -> Result<u32, String> {
    let constant = |name| kernel.get(name).unwrap_or(1);
    let in_tiles = ["tiles", "gate_up", "down"].iter().any(|end| entry.ends_with(end));
    if !in_tiles {
        return Ok(OTHERS);
    }
    let elements = constant("TILE_ROWS") * constant("TILE_COLS");
    let registers = OTHERS + 2 * elements / (32 * constant("WARPS_DOWN") * constant("WARPS_ACROSS"));
    let why = || format!("{} {entry}: a thread would need {registers} registers, and has {MOST}", kernel.label());
    if registers <= MOST { Ok(registers) } else { Err(why()) }
}
