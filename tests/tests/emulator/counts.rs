//! What the counting form counts, of accesses whose cost follows from how a GPU serves a warp: sectors of 32 bytes, 32
//! banks of 4 bytes, at most 128 bytes at a time.

use optimized::device::Gpu;
use optimized::emulated::{Counts, Form, take_counts};
use optimized::kernel::{Kernel, Sources};
use optimized::ops::linear::{Tiling, linear_tiled};
use optimized::tensor::Matrix;
use tests::device::{Argument, Grid, address, emulated, launch};
use tests::values::activations;

/// The kernels and their text.
pub(crate) const SOURCE: (Kernel, &str) = (KERNEL, include_str!("accesses.cu"));

const KERNEL: Kernel = Kernel {
    op: "accesses",
    entries: &[
        "side_by_side",
        "apart",
        "vectors_of_four",
        "again",
        "halves",
        "banks",
        "wide_banks",
        "matrices_of_rows",
    ],
    constants: &[],
};

/// What one warp's launch of an entry counts.
fn counts(gpu: &Gpu, entry: &str, step: Option<i32>) -> Counts {
    let memory = || -> Matrix<i32> { gpu.uninitialised((1, 1024)).expect("memory") };
    let (input, output) = (memory(), memory());
    let grid = Grid { blocks: (1, 1), threads: 32, shared_bytes: 8192 };
    let mut arguments = vec![Argument::Address(address(&input)), Argument::Address(address(&output))];
    arguments.extend(step.map(Argument::Int));
    take_counts();
    launch(gpu, &KERNEL, entry, grid, &arguments).unwrap_or_else(|error| panic!("{error}"));
    take_counts()
}

fn device() -> Gpu {
    let gpu = emulated(Form::Counting);
    gpu.replace(&KERNEL, &Sources::embedded().with("accesses.cu", SOURCE.1)).unwrap_or_else(|error| panic!("{error}"));
    gpu
}

#[test]
fn accesses_cost_what_a_warp_is_served_for() {
    let gpu = device();
    // Requests, bytes, sectors and sectors touched.
    let of_global = [
        ("side_by_side", [1, 128, 4, 4]),
        ("apart", [1, 128, 32, 32]),
        ("vectors_of_four", [1, 512, 16, 16]),
        ("again", [3, 384, 3, 1]),
        ("halves", [2, 128, 8, 8]),
    ];
    for (entry, expected) in of_global {
        let counts = counts(&gpu, entry, None);
        let read = counts.read;
        assert_eq!([read.requests, read.bytes, read.sectors, read.touched], expected, "{entry}");
        let written = counts.written;
        assert_eq!([written.requests, written.bytes, written.sectors, written.touched], [1, 128, 4, 4], "{entry}");
        assert_eq!((counts.launches, counts.blocks, counts.shared_requests), (1, 1, 0), "{entry}");
    }
    // A store and a load: words a stride of s apart meet in banks gcd(s, 32) at a time; all lanes' same word is one.
    for (step, at_once) in [(1, 1), (2, 2), (3, 1), (8, 8), (32, 32), (0, 1)] {
        let counts = counts(&gpu, "banks", Some(step));
        let found = [counts.shared_requests, counts.shared_wavefronts, counts.shared_conflicts];
        assert_eq!(found, [2, 2 * at_once, 2 * (at_once - 1)], "{step}");
    }
    // Eight lanes of 16 bytes at a time: four times 128 bytes side by side; 128 bytes apart, each of the eight alone.
    for (step, wavefronts) in [(4, 4), (8, 8), (32, 32), (36, 4)] {
        let counts = counts(&gpu, "wide_banks", Some(step));
        // The load is of a word of each lane: as many as meet in a bank.
        let load = wavefronts;
        assert_eq!(counts.shared_wavefronts, wavefronts + load, "{step}");
        assert_eq!(counts.shared_conflicts, wavefronts - 4 + load - 1, "{step}");
    }
    // The copy's 16 bytes of each lane, and four matrices of eight rows.
    for (step, wavefronts) in [(4, 4), (32, 32), (36, 4)] {
        let counts = counts(&gpu, "matrices_of_rows", Some(step));
        assert_eq!([counts.read.bytes, counts.read.sectors, counts.read.touched], [512, 16, 16], "{step}");
        assert_eq!(
            (counts.shared_wavefronts, counts.shared_conflicts),
            (2 * wavefronts, 2 * (wavefronts - 4)),
            "{step}"
        );
    }
}

/// Of a product, by hand: tiles of 64 × 64 read their 64 rows of x and of w, so that x is asked for by each of three tiles
/// across, and w by each of two down; touched, both are once. No tile's rows conflict, and tiles are computed whole.
#[test]
fn a_product_reads_its_operands_once_and_asks_for_them_by_tiles() {
    let gpu = emulated(Form::Counting);
    let (n, k, m) = (128_u64, 256_u64, 192_u64);
    let [x, w] = [(n, 1), (m, 2)].map(|(rows, seed)| {
        let dim = (usize::try_from(rows).expect("small"), usize::try_from(k).expect("small"));
        gpu.upload(activations(seed, dim).view()).expect("memory")
    });
    take_counts();
    let y: Matrix<half::bf16> = linear_tiled(&gpu, Tiling::Small, &x, &w).unwrap_or_else(|error| panic!("{error}"));
    let counts = take_counts();
    assert_eq!((counts.launches, counts.blocks), (1, 6));
    assert_eq!(32 * counts.read.touched, 2 * k * (n + m));
    assert_eq!(32 * counts.read.sectors, 2 * k * (3 * n + 2 * m));
    assert_eq!(32 * counts.written.touched, 2 * n * m);
    assert_eq!(counts.multiply_adds, n * k * m);
    assert_eq!(counts.shared_conflicts, 0);
    // The numbers are those of the form that does not count.
    let fast = emulated(Form::Fast);
    let [x, w] = [&x, &w].map(|it| fast.upload(gpu.download(it).expect("copied").view()).expect("memory"));
    let other: Matrix<half::bf16> =
        linear_tiled(&fast, Tiling::Small, &x, &w).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(gpu.download(&y).expect("computed"), fast.download(&other).expect("computed"));
    assert_eq!(take_counts(), Counts::default());
}

/// Of a tile by two warpgroups: copies fill 256 rows of 128 bytes, and at each of four steps of k both read 64 rows of 32 bytes
/// of x and all 128 of w.
#[test]
fn warpgroups_read_a_tile_of_w_each() {
    let gpu = emulated(Form::Counting);
    let [x, w] = [1, 2].map(|seed| gpu.upload(activations(seed, (128, 64)).view()).expect("memory"));
    take_counts();
    let done = linear_tiled::<half::bf16>(&gpu, Tiling::Warpgroups, &x, &w).map(drop);
    done.unwrap_or_else(|error| panic!("{error}"));
    let counts = take_counts();
    assert_eq!((counts.blocks, counts.multiply_adds, counts.shared_conflicts), (1, 128 * 128 * 64, 0));
    assert_eq!(counts.shared_wavefronts, 256 + 4 * 2 * (64 + 128) / 4);
}
