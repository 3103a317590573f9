//! `--memory`: a limit on anonymous memory, and how much was used.
//!
//! Linux tells a process its anonymous memory in /proc/self/status (`RssAnon`): what it allocated and touched, without the pages of
//! files that are mapped, which the system takes back when it needs them. It is looked at every few milliseconds; elsewhere nothing
//! is told, and the limit holds for estimates alone.

use std::fs;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bytesize::ByteSize;
use clap::Args;
use fixtures::whole::unfinished::abandon_all;

use super::github;
use crate::failure::Failure;
use crate::report::output::Output;

/// How often it is looked at.
const EVERY: Duration = Duration::from_millis(10);

/// A limit.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct MemoryOptions {
    /// Anonymous memory that may be used at most, such as 4GiB or 800MiB: what is read from files through the system's cache does
    /// not count. Work is done in smaller parts where that suffices, refused beforehand where an estimate from shapes says that
    /// it does not, and stopped with exit code 2 where more is used after all.
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<ByteSize>,
}

/// The largest anonymous memory so far, in bytes.
#[derive(Debug)]
pub struct Watch(Arc<AtomicU64>);

impl MemoryOptions {
    /// Looks from now on.
    pub fn watch(self, output: Output) -> Watch {
        let peak = Arc::new(AtomicU64::new(0));
        let limit = self.memory;
        let seen = Arc::clone(&peak);
        thread::spawn(move || {
            while let Some(used) = anonymous() {
                seen.fetch_max(used, Ordering::Relaxed);
                if let Some(limit) = limit.filter(|limit| used > limit.as_u64()) {
                    stop(used, limit, output);
                }
                thread::sleep(EVERY);
            }
        });
        Watch(peak)
    }
}

impl Watch {
    /// Tells how much was used, where that is known.
    pub fn tell(&self, output: Output) {
        if let Some(now) = anonymous() {
            let peak = ByteSize::b(now.max(self.0.load(Ordering::Relaxed)));
            output.note(&format!("peak of anonymous memory: {}", peak.display().iec()));
        }
    }
}

/// Ends the program, and what it has not finished.
fn stop(used: u64, limit: ByteSize, output: Output) {
    let (used, limit) = (ByteSize::b(used).display().iec(), limit.display().iec());
    let problem = format!("--memory {limit}: {used} of anonymous memory are in use, expected no more than that");
    let help = "allow more, or give a shorter prompt; with --resume, what is done is kept";
    let failure = Failure::new(problem).help(help);
    github::tell_failure(&failure);
    output.fail(failure);
    abandon_all();
    exit(2);
}

/// Anonymous memory in use, in bytes.
fn anonymous() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}
