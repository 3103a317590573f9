//! The cost model, by hand.

use optimized::emulated::Form;
use optimized::emulated::{Counts, Traffic};
use optimized::kernel::table::{LINEAR_64_BF16, SAMPLING};
use optimized::ops::sampling::argmax_there;
use optimized::tuning::Launched;
use tests::device::emulated;
use tests::values::activations;
use tools::tune::cost::{Cost, Launch, Limit, cost};

/// 132 blocks of 256 threads that read so many sectors.
fn launch(sectors: u64) -> Launched {
    let read = Traffic { sectors, touched: sectors, ..Traffic::default() };
    let counts = Counts { launches: 1, blocks: 132, threads: 132 * 256, read, ..Counts::default() };
    Launched { kernel: SAMPLING, entry: "sampling_argmax".to_owned(), counts }
}

fn of(launched: &Launched, registers: u32) -> Cost {
    cost(&[Launch::of(launched, registers)]).expect("it fits")
}

/// 132 · 256 threads ask for 16 bytes each, 540,672 in flight; by Little's law with 0.7 µs that is 772 GB/s. 32 MB take 41.43 µs,
/// and 2 the launch.
#[test]
fn too_few_bytes_in_flight_do_not_reach_the_bandwidth() {
    let cost = of(&launch(1_000_000), 32);
    assert!((cost.microseconds - 43.43).abs() < 0.01 && cost.limit == Limit::Memory, "{cost:?}");
}

/// 16 times as many blocks are 8 on each of 132 multiprocessors twice over: 4.3 TB/s then, and the cache's rate is higher.
#[test]
fn enough_of_them_do() {
    let mut launched = launch(1_000_000);
    launched.counts.blocks *= 16;
    launched.counts.threads *= 16;
    let cost = of(&launched, 32);
    assert!((cost.microseconds - (2.0 + 32e6 / 4.3e6)).abs() < 0.01 && cost.limit == Limit::Memory, "{cost:?}");
}

/// Seventeen sixteenths of what fits at once take two waves.
#[test]
fn a_last_wave_that_is_nearly_empty_takes_a_whole_one() {
    let of_blocks = |blocks: u64| {
        let mut launched = launch(1_000_000);
        (launched.counts.blocks, launched.counts.threads) = (blocks, blocks * 256);
        of(&launched, 32).microseconds - 2.0
    };
    let full = of_blocks(132 * 8);
    assert!((of_blocks(132 * 8 + 66) / full - 2.0 * 8.0 / 8.5).abs() < 1e-9);
}

#[test]
fn what_is_asked_most_of_is_the_limit() {
    let with = |change: fn(&mut Counts)| {
        let mut launched = launch(1);
        change(&mut launched.counts);
        of(&launched, 32)
    };
    // 132 multiprocessors of 1.83 GHz, a wavefront a clock.
    let shared = with(|counts| counts.shared_wavefronts = 241_560_000);
    assert!((shared.microseconds - 1002.0).abs() < 0.1 && shared.limit == Limit::Shared, "{shared:?}");
    // 790 TFLOP/s.
    let tensor = with(|counts| counts.multiply_adds = 395_000_000_000);
    assert!((tensor.microseconds - 1002.0).abs() < 0.1 && tensor.limit == Limit::Tensor, "{tensor:?}");
    let nothing = with(|counts| counts.fills = 2);
    assert!((nothing.microseconds - 6.0).abs() < 0.01 && nothing.limit == Limit::Launches, "{nothing:?}");
}

#[test]
fn what_does_not_fit_has_no_cost() {
    let mut launched = launch(1);
    launched.counts.threads = 132 * 1024;
    assert!(cost(&[Launch::of(&launched, 64)]).is_some() && cost(&[Launch::of(&launched, 65)]).is_none());
    launched.counts.shared_bytes = 132 * 240_000;
    assert!(cost(&[Launch::of(&launched, 32)]).is_none());
}

/// A ring of four stages has three in flight: 132 blocks with 32 KiB have 3.2 MB, more than 4.3 TB/s need.
#[test]
fn a_ring_keeps_more_in_flight() {
    let mut launched = launch(1_000_000);
    launched.counts.shared_bytes = 132 * 32768;
    let others = of(&launched, 32).microseconds;
    (launched.kernel, launched.entry) = (LINEAR_64_BF16, "linear_tiles".to_owned());
    let ring = of(&launched, 32).microseconds;
    assert!(ring < 12.0 && others > 40.0, "{ring} {others}");
}

/// Launches are told apart with what each accessed.
#[test]
fn launches_are_told_with_their_counts() {
    let gpu = emulated(Form::Counting);
    let logits = gpu.upload(activations(1, (3, 512)).view()).expect("memory");
    let launches = gpu.launches(|| argmax_there(&gpu, &logits).map(drop)).expect("it runs");
    let [parts, best] = &launches[..] else { panic!("{launches:?}") };
    let told = [parts, best].map(|launched| (launched.kernel, launched.entry.as_str(), launched.counts.blocks));
    assert_eq!(told, [(SAMPLING, "sampling_parts", 3), (SAMPLING, "sampling_argmax", 3)]);
    let Counts { threads, shared_bytes, read, .. } = parts.counts;
    assert_eq!((threads, shared_bytes, read.touched), (768, 3 * 256 * 12, 3 * 512 * 2 / 32));
    let variant = SAMPLING.with("THREADS", 128).expect("it has threads");
    gpu.launch_instead(&SAMPLING, variant);
    let launches = gpu.launches(|| argmax_there(&gpu, &logits).map(drop)).expect("it runs");
    assert_eq!((launches[0].kernel, launches[0].counts.threads), (variant, 384));
}
