//! `parity kernels`: every kernel compiled for every GPU.

use std::path::PathBuf;

use clap::Args;
use comfy_table::Cell;
use optimized::kernel::Sources;
use optimized::kernel::table::KERNELS;
use optimized::nvrtc::Nvrtc;
use serde_json::json;

use super::outcome::Outcome;
use crate::commands::options::Reporting;
use crate::failure::Failure;
use crate::report::output::Output;
use crate::report::table::{number, with_header};

/// What is typed.
///
/// NVRTC compiles without a GPU; `pip install nvidia-cuda-nvrtc` brings it. Exit code 1 where a kernel spills registers.
#[derive(Debug, Clone, Args)]
pub struct Kernels {
    /// The folder of libnvrtc.so.13; else the environment variable `PARITY_NVRTC`, and the system's folders.
    #[arg(long, value_name = "FOLDER")]
    pub nvrtc: Option<PathBuf>,
    /// GPUs to compile for.
    #[arg(long, value_name = "ARCH", default_values = ["sm_80", "sm_90", "sm_90a"])]
    pub arch: Vec<String>,
    #[command(flatten)]
    reporting: Reporting,
}

impl Kernels {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let (json, output) = self.reporting.begin(output)?;
        let nvrtc = Nvrtc::find(self.nvrtc.as_deref())?;
        let sources = Sources::embedded();
        let mut table = with_header(&["kernel", "entry", "GPU", "registers", "spills", "stack", "shared", "cubin"]);
        let mut rows = Vec::new();
        let mut spilled = false;
        let bar = output.progress(KERNELS.len() * self.arch.len(), "compiling");
        for kernel in KERNELS {
            for arch in &self.arch {
                let compiled = nvrtc.compile(kernel, &sources, arch)?;
                for needs in &compiled.resources {
                    let numbers = [
                        needs.registers,
                        needs.spilled_bytes,
                        needs.stack_bytes,
                        needs.shared_bytes,
                        compiled.cubin.len(),
                    ];
                    let names = [kernel.label(), needs.entry.clone(), arch.clone()].map(Cell::new);
                    table.add_row(names.into_iter().chain(numbers.map(number)));
                    spilled |= needs.spilled_bytes > 0;
                    rows.push(json!({
                        "kernel": kernel.label(), "entry": needs.entry, "architecture": arch, "registers": needs.registers,
                        "spilled_bytes": needs.spilled_bytes, "stack_bytes": needs.stack_bytes,
                        "shared_bytes": needs.shared_bytes, "cubin_bytes": compiled.cubin.len(),
                    }));
                }
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        let (major, minor) = nvrtc.version();
        output.say(&format!(
            "{table}\nby NVRTC {major}.{minor}; bytes of each thread, of static shared memory, of the file"
        ));
        json.write(&json!({ "schema": 1, "nvrtc": format!("{major}.{minor}"), "kernels": rows }))?;
        Ok(if spilled { Outcome::Fault } else { Outcome::Good })
    }
}
