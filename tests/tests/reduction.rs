//! `reference/src/reduction.rs`.

use optimized::kernel::table::{ADD_RMS_NORM, LAYER_NORM, MTP, QK_NORM_ROPE, RMS_NORM};
use reference::Real;
use reference::accumulator::gamma;
use reference::reduction::Reduction;
use tests::simulated::Order;

/// At M3's width our kernels' threads add 24 values each, then 5 times lanes, then 8 warps.
#[test]
fn depths_by_hand() {
    assert_eq!(Reduction::Any.depth(6144), 6144);
    assert_eq!(Reduction::Parity.depth(6144), 24 + 5 + 8);
    assert_eq!(Reduction::Parity.depth(100), 8 + 5 + 8);
    // 384 vectors of 16 values in 24 runs of 16; on a GPU 48 values to each of 128 sums.
    assert_eq!(Reduction::Torch.depth(6144), 48 + 4 + 9);
    for reduction in [Reduction::Any, Reduction::Parity, Reduction::Torch] {
        assert_eq!((reduction.depth(1), reduction.depth(7)), (1, 7));
        assert_eq!(reduction.to_string().parse(), Ok(reduction));
    }
    assert_eq!(Reduction::Torch.depth_of_moments(6144), 6144, "Welford's recurrence is another matter");
    assert_eq!(Reduction::Parity.depth_of_moments(6144), 37);
}

/// The depth is that of blocks of 256 threads.
#[test]
fn our_kernels_have_these_blocks() {
    for kernel in [RMS_NORM, ADD_RMS_NORM, LAYER_NORM, MTP].into_iter().chain(QK_NORM_ROPE) {
        assert_eq!(kernel.constant("THREADS"), 256, "{}", kernel.label());
    }
}

/// What rounds up in each addition that it is in: a 1 among a little more than half of its ulp.
#[test]
fn sums_keep_their_depth() {
    for d in [1, 8, 31, 100, 128, 1000, 3072, 6144, 20_000] {
        for (reduction, order) in
            [(Reduction::Parity, Order::Block), (Reduction::Torch, Order::Cascade), (Reduction::Any, Order::Sequential)]
        {
            for at in [0, d / 2, d - 1] {
                let mut x = vec![f32::of(2.0_f64.powi(-24) * (1.0 + 2.0_f64.powi(-20))); d];
                x[at] = 1.0;
                let sum: f64 = x.iter().map(|x| x.wide()).sum();
                let off = (order.dot(&x, &vec![1.0; d]).wide() - sum).abs();
                let limit = (gamma(reduction.depth(d), f32::UNIT_ROUNDOFF) + gamma(d, f64::UNIT_ROUNDOFF)) * sum;
                assert!(off <= limit, "{reduction} of {d} at {at}: {off} > {limit}");
            }
        }
    }
}
