//! On whole numbers that no sum rounds, every product of matrices is the reference's to the bit: in every tiling, for every
//! count of rows, whatever is beside them. Where one is not, values that tell where they are say what was read instead.

mod attention;
mod block_sparse;
mod experts;
mod faults;
mod fetch;
mod linear;
mod product;

use half::bf16;
use optimized::device::Gpu;
use optimized::emulated::Form;
use optimized::ops::attention::Cut;
use tests::cuts::{tiles, tilings};
use tests::device::{devices, emulated};

use fetch::{Extent, Fetch};

/// Rows of x, around every height that kernels cut them at.
const ROWS: [usize; 9] = [1, 2, 7, 8, 9, 63, 64, 65, 130];

/// The device that most is tried on: a GPU, or the emulated device's fast form.
fn device() -> Gpu {
    devices().swap_remove(0)
}

/// The emulated device's checked form finds no fault in what is read and written here, and computes the same.
#[test]
fn the_checked_form_is_exact() {
    let gpu = emulated(Form::Checked);
    let unwrap = |found: Result<(), String>| found.unwrap_or_else(|error| panic!("{error}"));
    for n in [1, 9, 65] {
        for tiling in tilings(&gpu, n) {
            unwrap(linear::demand::<bf16>(&gpu, tiling, (n, 70, 70)));
        }
        unwrap(linear::demand_logits(&gpu, (n, 5, 70)));
        for part in [experts::Part::Gate, experts::Part::Up, experts::Part::Down, experts::Part::Combine] {
            let case = experts::Case { part, choice: experts::Choice::All, experts: 3 };
            for tiles in tiles(&gpu) {
                unwrap(case.demand(&gpu, tiles, (n, 20)));
            }
        }
        for cut in [Cut::Queries, Cut::Keys] {
            let extent = Extent { heads: (4, 2), d: 12, n, first: 60 };
            unwrap(attention::Case(extent).demand(&gpu, cut, n));
            unwrap(block_sparse::Case { extent, block: 16, top_k: 3, choices: 2 }.demand(&gpu, cut, n));
        }
    }
}
