//! Each thing that kernels may use does what CUDA's documentation says. On a GPU, these are the first tests to run.

use std::ops::AddAssign;

use half::bf16;
use ndarray::{Array2, s};
use optimized::conformance;
use optimized::device::Gpu;
use optimized::kernel::Kernel;
use optimized::kernel::instructions::INSTRUCTIONS;
use optimized::tensor::Matrix;
use reference::matrix::Encoding;
use tests::device::{Argument, Grid, address, devices, launch};
use tests::values::{Draw, whole_numbers};

/// The kernels and their text.
pub(crate) const SOURCE: (Kernel, &str) = (KERNEL, conformance::SOURCE);

const KERNEL: Kernel = INSTRUCTIONS;

const ONE_WARP: Grid = Grid { blocks: (1, 1), threads: 32, shared_bytes: 1024 };

/// Every device with the kernels loaded.
fn with_kernels() -> impl Iterator<Item = Gpu> {
    devices().into_iter().inspect(|gpu| conformance::load(gpu).unwrap_or_else(|error| panic!("{error}")))
}

/// Runs an entry that writes `out`, and returns it.
fn run(gpu: &Gpu, entry: &str, grid: Grid, dim: (usize, usize)) -> Array2<i32> {
    let out: Matrix<i32> = gpu.uninitialised(dim).expect("memory");
    launch(gpu, &KERNEL, entry, grid, &[Argument::Address(address(&out))]).unwrap_or_else(|error| panic!("{error}"));
    gpu.download(&out).unwrap_or_else(|error| panic!("{error}"))
}

/// An index as the kernels have it.
fn int(i: usize) -> i32 {
    i32::try_from(i).expect("a small number")
}

#[test]
fn threads_know_where_they_are() {
    let want = Array2::from_shape_fn((2 * 3 * 64, 8), |(i, j)| {
        let (block, thread) = (i / 64, i % 64);
        [int(thread), int(block % 3), int(block / 3), 64, 3, 2, 0, 1][j]
    });
    for gpu in with_kernels() {
        let grid = Grid { blocks: (3, 2), threads: 64, shared_bytes: 0 };
        assert_eq!(run(&gpu, "indices", grid, (2 * 3 * 64, 8)), want, "{}", gpu.name());
    }
}

#[test]
fn shuffles_move_values_between_lanes() {
    let want = Array2::from_shape_fn((32, 8), |(lane, j)| {
        let lane = int(lane);
        let bits_of_neighbour = (lane ^ 1) as f32;
        [
            lane * 3 % 32,
            lane / 8 * 8 + 5,
            lane ^ 5,
            if lane % 16 < 8 { lane } else { lane ^ 9 },
            if lane < 3 { lane } else { lane - 3 },
            if lane % 16 < 3 { lane } else { lane - 3 },
            if lane > 28 { lane } else { lane + 3 },
            (bits_of_neighbour.to_bits() >> 16).cast_signed(),
        ][j]
    });
    for gpu in with_kernels() {
        assert_eq!(run(&gpu, "shuffles", ONE_WARP, (32, 8)), want, "{}", gpu.name());
    }
}

#[test]
fn votes_and_reductions_see_the_lanes_of_their_mask() {
    let values: Vec<i32> = (0..32).map(|lane| lane * 37 % 64 - 32).collect();
    let unsigned = || values.iter().map(|value| value.cast_unsigned());
    let lanes = |is: fn(usize) -> bool| (0..32).filter(|&lane| is(lane)).fold(0_u32, |bits, lane| bits | 1 << lane);
    let thirds = lanes(|lane| lane % 3 == 0);
    let want = Array2::from_shape_fn((32, 16), |(lane, j)| {
        let value = values[lane];
        let half = if lane < 16 { 0..16 } else { 16..32 };
        let half_mask = if lane < 16 { 0xffff } else { 0xffff_0000 };
        let equal = (0..32).filter(|other| other % 5 == lane % 5).fold(0_u32, |bits, other| bits | 1 << other);
        let first_one = if value == 0 { 0 } else { value.trailing_zeros() + 1 };
        [
            thirds.cast_signed(),
            (thirds & half_mask).cast_signed(),
            1,
            0,
            equal.cast_signed(),
            values.iter().sum(),
            *values.iter().min().expect("32 values"),
            *values.iter().max().expect("32 values"),
            unsigned().min().expect("32 values").cast_signed(),
            unsigned().max().expect("32 values").cast_signed(),
            unsigned().fold(u32::MAX, |all, value| all & (value | 1)).cast_signed(),
            unsigned().fold(0, |all, value| all | value & 6).cast_signed(),
            unsigned().fold(0, |all, value| all ^ value).cast_signed(),
            values[half].iter().sum(),
            (value.count_ones() * 10000 + value.leading_zeros() * 100 + first_one).cast_signed(),
            value.min(3) + value.max(-5) * 100,
        ][j]
    });
    for gpu in with_kernels() {
        assert_eq!(run(&gpu, "votes", ONE_WARP, (32, 16)), want, "{}", gpu.name());
    }
}

#[test]
fn barriers_count_the_blocks_threads() {
    for gpu in with_kernels() {
        let grid = Grid { blocks: (1, 1), threads: 96, shared_bytes: 0 };
        let got = run(&gpu, "block_votes", grid, (12, 32));
        let rows = got.to_shape((96, 4)).expect("as many");
        assert_eq!(rows, Array2::from_shape_fn((96, 4), |(_, j)| [32, 1, 0, 1][j]), "{}", gpu.name());
    }
}

/// Each warp sees what the other of its pair wrote before their barrier, and all see all after the block's.
#[test]
fn named_barriers_join_two_warps() {
    let want = Array2::from_shape_fn((32, 8), |(i, j)| {
        let (thread, after_all) = (4 * i + j / 2, j % 2 == 1);
        let other = if after_all { 127 - thread } else { thread / 64 * 64 + (thread + 32) % 64 };
        int(3 * other + 1)
    });
    for gpu in with_kernels() {
        let grid = Grid { blocks: (1, 1), threads: 128, shared_bytes: 1024 };
        assert_eq!(run(&gpu, "barriers", grid, (32, 8)), want, "{}", gpu.name());
    }
}

/// The instructions are the same ones in both forms, which run one code.
#[test]
fn what_instructions_give_is_told_bit_by_bit() {
    let of = |gpu: Gpu| conformance::given(&gpu).unwrap_or_else(|error| panic!("{error}"));
    let given: Vec<_> = devices().into_iter().map(of).collect();
    assert!(given.iter().all(|other| *other == given[0]));
    let products = |kind: &str| -> Vec<u32> {
        let name = format!("mma bf16, {kind}");
        given[0].iter().find(|given| given.name == name).unwrap_or_else(|| panic!("{name} is there")).bits.clone()
    };
    let is_whole = |bits: &u32| f32::from_bits(*bits).fract() == 0.0;
    assert!(products("whole numbers").iter().all(is_whole) && !products("exponents to 8").iter().all(is_whole));
    assert!(
        products("any bits").contains(&0x7fff_ffff)
            && products("subnormal products").iter().any(|bits| f32::from_bits(*bits).is_subnormal())
    );
}

/// Factors of one type, and an entry that adds their products: blocks of so many threads, rows and columns.
struct Products {
    entry: &'static str,
    of: Encoding,
    threads: u32,
    dim: (usize, usize),
}

impl Products {
    const BLOCKS: usize = 4;
    /// Bytes of a row of a factor.
    const ROW: usize = 32;

    /// Whole numbers up to 15, of which sums of products are exact.
    fn factor(&self, seed: u64, rows: usize) -> Array2<f64> {
        let columns = Self::ROW / self.of.bytes_of(1).expect("one");
        whole_numbers(seed, (Self::BLOCKS * rows, columns), 15).mapv(f64::from)
    }

    /// Its bits as the entries take them, two bytes an element.
    fn words(&self, factor: &Array2<f64>) -> Array2<bf16> {
        let bytes = self.of.narrow(factor.iter().copied());
        let words = bytes.chunks_exact(2).map(|pair| bf16::from_le_bytes([pair[0], pair[1]]));
        Array2::from_shape_vec((factor.nrows(), Self::ROW / 2), words.collect()).expect("whole rows")
    }

    /// What the device adds to c, and what is right.
    fn run(&self, gpu: &Gpu) -> [Array2<f64>; 2] {
        let (a, b) = (self.factor(1, self.dim.0), self.factor(2, self.dim.1));
        let sums = whole_numbers(3, (Self::BLOCKS * self.dim.0, self.dim.1), 100).mapv(f32::from);
        let (c, mut want) = (gpu.upload(sums.view()).expect("memory"), sums.mapv(f64::from));
        let block =
            |factor: &Array2<f64>, rows: usize, i: usize| factor.slice(s![i * rows..(i + 1) * rows, ..]).to_owned();
        for i in 0..Self::BLOCKS {
            let product = block(&a, self.dim.0, i).dot(&block(&b, self.dim.1, i).t());
            want.slice_mut(s![i * self.dim.0..(i + 1) * self.dim.0, ..]).add_assign(&product);
        }
        let [a, b] = [a, b].map(|factor| gpu.upload(self.words(&factor).view()).expect("memory"));
        let grid = Grid { blocks: (4, 1), threads: self.threads, shared_bytes: 24 << 10 };
        let arguments = [address(&a), address(&b), address(&c)].map(Argument::Address);
        launch(gpu, &KERNEL, self.entry, grid, &arguments).unwrap_or_else(|error| panic!("{error}"));
        [gpu.download(&c).expect("no fault").mapv(f64::from), want]
    }
}

#[test]
fn products_of_whole_numbers_are_exact() {
    let of_warp = |entry, of| Products { entry, of, threads: 32, dim: (16, 16) };
    for gpu in with_kernels() {
        let of_ada = (gpu.capability() >= (8, 9)).then(|| of_warp("multiply_e4m3", Encoding::E4m3));
        let of_warpgroup =
            Products { entry: "multiply_by_warpgroup", of: Encoding::Bf16, threads: 128, dim: (64, 128) };
        let of_hopper = gpu.has_warpgroups().then_some(of_warpgroup);
        let everywhere = [of_warp("multiply", Encoding::Bf16), of_warp("multiply_f16", Encoding::F16)];
        for products in everywhere.into_iter().chain(of_ada).chain(of_hopper) {
            let [got, want] = products.run(&gpu);
            assert_eq!(got, want, "{} on {}", products.entry, gpu.name());
        }
    }
}

/// As the reference reads them; what is no number stays none.
#[test]
fn e4m3_becomes_f32_in_pairs() {
    let codes: Vec<u8> = (0..=255).collect();
    let mut values = vec![0.0_f32; codes.len()];
    Encoding::E4m3.widen(&codes, &mut values);
    for gpu in with_kernels() {
        let got = run(&gpu, "e4m3_pairs", ONE_WARP, (64, 8));
        let got = got.to_shape((256, 2)).expect("as many");
        for (code, got) in got.rows().into_iter().enumerate() {
            let is_right = |(bits, want): (&i32, f32)| {
                let got = f32::from_bits(bits.cast_unsigned());
                got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan()
            };
            assert!(got.iter().zip([values[code], values[255 - code]]).all(is_right), "{code} on {}", gpu.name());
        }
    }
}

/// Register m of lane l holds columns 2(l%4) and 2(l%4)+1 of row l/4 of matrix m; transposed, rows and columns change
/// places.
#[test]
fn ldmatrix_deals_rows_to_lanes() {
    let want = Array2::from_shape_fn((32, 16), |(lane, j)| {
        let (matrix, row, column) = (int(j % 8), int(lane / 4), int(lane % 4 * 2));
        let (low, high) =
            if j < 8 { (8 * row + column, 8 * row + column + 1) } else { (8 * column + row, 8 * column + 8 + row) };
        (64 * matrix + high) << 16 | (64 * matrix + low)
    });
    for gpu in with_kernels() {
        assert_eq!(run(&gpu, "matrices", ONE_WARP, (32, 16)), want, "{}", gpu.name());
    }
}

#[test]
fn copies_are_cut_off_and_filled_with_zeros() {
    let bytes = |cut: bool| {
        Array2::from_shape_fn((16, 8), |(i, j)| {
            // Four bytes to a number: those of lane 2i + j/4, from 4(j%4) on.
            let lane = 2 * i + j / 4;
            let kept = if cut && lane < 16 { lane } else { 16 };
            let byte = |k: usize| {
                if 4 * (j % 4) + k < kept {
                    u8::try_from(16 * (lane % 16) + 4 * (j % 4) + k).expect("a byte")
                } else {
                    0
                }
            };
            i32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)])
        })
    };
    for gpu in with_kernels() {
        let input = gpu.upload(bytes(false).view()).expect("memory");
        let out: Matrix<i32> = gpu.uninitialised((16, 8)).expect("memory");
        let arguments = [address(&input), address(&out)].map(Argument::Address);
        launch(&gpu, &KERNEL, "copies", ONE_WARP, &arguments).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(gpu.download(&out).expect("all is written"), bytes(true), "{}", gpu.name());
    }
}

#[test]
fn atomic_changes_of_all_threads_count() {
    const THREADS: i32 = 4 * 64;
    let last = THREADS - 1;
    for gpu in with_kernels() {
        let start = [0, 100, -100, 0, 0xff, 7, 5, 5];
        let counters = gpu.upload(Array2::from_shape_fn((1, 8), |(_, j)| start[j]).view()).expect("memory");
        let wide = gpu.zeros::<i32>((1, 8)).expect("memory");
        let arguments = [address(&counters), address(&wide)].map(Argument::Address);
        let grid = Grid { blocks: (4, 1), threads: 64, shared_bytes: 0 };
        launch(&gpu, &KERNEL, "atomics", grid, &arguments).unwrap_or_else(|error| panic!("{error}"));
        let sum = THREADS * last / 2;
        let want = [sum, -20, last - 20, -1, 0xff & !3, (0..THREADS).fold(7, |all, thread| all ^ thread), 9, 11];
        assert_eq!(gpu.download(&counters).expect("no fault").as_slice(), Some(want.as_slice()), "{}", gpu.name());
        let wide = gpu.download(&wide).expect("no fault");
        assert_eq!(wide.as_slice(), Some([0, sum, 0, last << 8, 0, 0, 0, 0].as_slice()), "{}", gpu.name());
    }
}

/// As the half crate rounds; every NaN becomes the one that the device has.
#[test]
fn rounding_to_bf16_is_to_nearest_even() {
    const COUNT: usize = 4096;
    let mut draw = Draw::new(7);
    let mut values = Array2::from_shape_simple_fn((1, COUNT), || f32::from_bits(draw.bits32()));
    let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, f32::MIN_POSITIVE, 1e-45];
    let ties = [0x3f80_8000, 0x3f81_8000, 0x3f80_8001, 0x3f80_7fff, 0x7f7f_8000, 0x7f7f_7fff].map(f32::from_bits);
    for (value, special) in values.iter_mut().zip(special.into_iter().chain(ties)) {
        *value = special;
    }
    let want = values.mapv(|value| {
        let bits = if value.is_nan() { 0x7fff } else { bf16::from_f32(value).to_bits() };
        (u32::from(bits) << 16 | 1).cast_signed()
    });
    for gpu in with_kernels() {
        let input = gpu.upload(values.view()).expect("memory");
        let out: Matrix<i32> = gpu.uninitialised((1, COUNT)).expect("memory");
        let arguments =
            [Argument::Address(address(&input)), Argument::Address(address(&out)), Argument::Int(int(COUNT))];
        launch(&gpu, &KERNEL, "rounding", ONE_WARP, &arguments).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(gpu.download(&out).expect("all is written"), want, "{}", gpu.name());
    }
}
