//! A kernel's constants, and kernels with others than the table's.

use std::sync::{Mutex, PoisonError};

use super::Kernel;

/// Constants of variants: a kernel's live as long as the program, and equal ones are the same.
static INTERNED: Mutex<Vec<&'static [(&'static str, u32)]>> = Mutex::new(Vec::new());

impl Kernel {
    /// The value of the constant `name`, which the kernel must have: in a constant expression, a compile error
    /// otherwise.
    pub const fn constant(&self, name: &str) -> u32 {
        let mut i = 0;
        while i < self.constants.len() {
            if same(self.constants[i].0, name) {
                return self.constants[i].1;
            }
            i += 1;
        }
        panic!("the kernel has no constant of this name")
    }

    /// The same kernel with another value of a constant; `None` if it has no constant of this name.
    pub fn with(&self, name: &str, value: u32) -> Option<Kernel> {
        let mut constants = self.constants.to_vec();
        constants.iter_mut().find(|(known, _)| *known == name)?.1 = value;
        Some(Kernel { constants: interned(constants), ..*self })
    }

    /// Whether it multiplies on warpgroups, as Hopper alone does.
    pub fn is_of_warpgroups(&self) -> bool {
        self.get("WARPGROUPS") == Some(1)
    }

    /// The value of a constant, if the kernel has it.
    pub fn get(&self, name: &str) -> Option<u32> {
        self.constants.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }
}

/// `a == b`, in constant expressions.
const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut i = 0;
    while i < a.len() && i < b.len() && a[i] == b[i] {
        i += 1;
    }
    i == a.len() && i == b.len()
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
