//! How work is timed, as far as the emulated driver goes: what is captured, and how often it is replayed.

use optimized::emulated::Form;
use optimized::error::Error;
use optimized::ops::rms_norm::rms_norm;
use optimized::timing::Repeats;
use reference::semantics::NormWeight;
use tests::device::emulated;
use tests::values::activations;

const REPEATS: Repeats = Repeats { in_graph: 3, warm_ups: 2, replays: 5, flushed_bytes: 1 << 16 };

#[test]
fn work_is_captured_once_and_replayed() {
    let gpu = emulated(Form::Fast);
    let x = gpu.upload(activations(1, (7, 128)).view()).expect("memory");
    let w = gpu.upload(activations(2, (1, 128)).view()).expect("memory");
    let mut done = 0;
    let times = gpu.time(REPEATS, || {
        done += 1;
        rms_norm(&gpu, &x, &w, NormWeight::Plain, 1e-6).map(drop)
    });
    let times = times.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((done, times.len()), (1 + REPEATS.in_graph, REPEATS.replays));
    assert!(times.is_sorted() && times.iter().all(|time| time.is_finite()), "{times:?}");
    assert!(gpu.copy_rate(1 << 20).expect("it copies") > 0.0);
}

/// The device goes on after work that fails while it is captured.
#[test]
fn work_that_fails_leaves_the_device_as_it_was() {
    let gpu = emulated(Form::Fast);
    let mut done = 0;
    let failed = gpu.time(REPEATS, || {
        done += 1;
        if done == 1 { Ok(()) } else { gpu.synchronize() }
    });
    assert!(matches!(failed, Err(Error::Driver { .. })), "waiting cannot be captured: {failed:?}");
    gpu.synchronize().expect("nothing is captured any more");
}

/// 132 multiprocessors at 1980 MHz, 6144 bits at 3201 MHz twice a clock.
#[test]
fn the_limits_are_those_of_an_h200() {
    let limits = emulated(Form::Fast).limits().expect("it has all attributes");
    assert_eq!((limits.multiprocessors, limits.clock, limits.capability), (132, 1.98e9, (9, 0)));
    assert!((limits.bandwidth - 4.917e12).abs() < 1e9, "{limits:?}");
}
