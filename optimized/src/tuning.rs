//! Launching kernels with other constants than the table's, and telling the launches of some work apart.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::emulated::{self, Counts};
use crate::kernel::Kernel;

/// What is launched instead of what, and what is being told apart.
#[derive(Debug, Default)]
pub(crate) struct Tuning {
    instead: Mutex<HashMap<Kernel, Kernel>>,
    told: Mutex<Option<Vec<Launched>>>,
}

/// A launch of some work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    /// The kernel as it was launched.
    pub kernel: Kernel,
    /// Its entry.
    pub entry: String,
    /// What it accessed, on the emulated device's counting form, and what was set to zero around it.
    pub counts: Counts,
}

impl Tuning {
    /// From now on, `variant` is launched instead of `kernel`.
    pub(crate) fn launch_instead(&self, kernel: &Kernel, variant: Kernel) {
        self.instead.lock().unwrap_or_else(PoisonError::into_inner).insert(*kernel, variant);
    }

    /// What is launched instead of `kernel`, or itself.
    pub(crate) fn launched(&self, kernel: &Kernel) -> Kernel {
        self.instead.lock().unwrap_or_else(PoisonError::into_inner).get(kernel).copied().unwrap_or(*kernel)
    }

    /// From now on, launches are told apart.
    pub(crate) fn tell(&self) {
        emulated::take_counts();
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
    }

    /// The launches since then, which are done.
    pub(crate) fn told(&self) -> Vec<Launched> {
        let mut launches = self.told.lock().unwrap_or_else(PoisonError::into_inner).take().unwrap_or_default();
        close(&mut launches);
        launches
    }

    /// An entry is about to be launched: what was counted until now is the last one's; before the first, what was set to zero
    /// is its own.
    pub(crate) fn begins(&self, kernel: &Kernel, entry: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(launches) = told.as_mut() else { return };
        let Counts { fills, filled_bytes, .. } = close(launches);
        let counts = Counts { fills, filled_bytes, ..Counts::default() };
        launches.push(Launched { kernel: *kernel, entry: entry.to_owned(), counts });
    }
}

/// Gives the last launch what was counted, or gives that back.
fn close(launches: &mut [Launched]) -> Counts {
    let counts = emulated::take_counts();
    let Some(last) = launches.last_mut() else { return counts };
    let (fills, filled_bytes) = (last.counts.fills + counts.fills, last.counts.filled_bytes + counts.filled_bytes);
    last.counts = Counts { fills, filled_bytes, ..counts };
    Counts::default()
}
