//! Kernels with other constants than the table's.

use std::sync::{Mutex, PoisonError};

use super::Kernel;

/// Constants of variants: a kernel's live as long as the program, and equal ones are the same.
static INTERNED: Mutex<Vec<&'static [(&'static str, u32)]>> = Mutex::new(Vec::new());

impl Kernel {
    /// The same kernel with another value of a constant; `None` if it has no constant of this name.
    pub fn with(&self, name: &str, value: u32) -> Option<Kernel> {
        let mut constants = self.constants.to_vec();
        constants.iter_mut().find(|(known, _)| *known == name)?.1 = value;
        Some(Kernel { constants: interned(constants), ..*self })
    }

    /// The value of a constant, if the kernel has it.
    pub fn get(&self, name: &str) -> Option<u32> {
        self.constants.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

fn interned(constants: Vec<(&'static str, u32)>) -> &'static [(&'static str, u32)] {
    let mut all = INTERNED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.iter().find(|known| **known == constants) {
        return known;
    }
    let kept: &'static [_] = constants.leak();
    all.push(kept);
    kept
}

#[cfg(test)]
mod tests {
    use crate::kernel::table::{LINEAR_64_BF16, RMS_NORM};

    #[test]
    fn a_variant_has_the_other_constants_as_they_were() {
        let variant = LINEAR_64_BF16.with("STAGES", 5).expect("it has stages");
        assert_eq!((variant.get("STAGES"), variant.get("TILE_ROWS")), (Some(5), Some(64)));
        assert_eq!((variant.op, variant.entries), (LINEAR_64_BF16.op, LINEAR_64_BF16.entries));
        assert_eq!(variant.with("STAGES", 4), Some(LINEAR_64_BF16));
        assert_eq!((RMS_NORM.with("STAGES", 5), RMS_NORM.get("STAGES")), (None, None));
    }
}
