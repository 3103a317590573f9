//! How products may be cut on a device: by warpgroups where it has them.

use optimized::device::Gpu;
use optimized::ops::linear::Tiling;
use optimized::tiles::Tiles;

fn on<T, const N: usize>(gpu: &Gpu, everywhere: [T; N], warpgroups: T) -> impl Iterator<Item = T> {
    everywhere.into_iter().chain(gpu.has_warpgroups().then_some(warpgroups))
}

/// Those of n rows by the linear operator.
pub fn tilings(gpu: &Gpu, n: usize) -> impl Iterator<Item = Tiling> {
    let all = on(gpu, [Tiling::Small, Tiling::Large, Tiling::FewRows], Tiling::Warpgroups);
    all.filter(move |&tiling| tiling != Tiling::FewRows || n <= 16)
}

/// Those of experts, and of a dense network.
pub fn tiles(gpu: &Gpu) -> impl Iterator<Item = Tiles> {
    on(gpu, [Tiles::Few, Tiles::Many], Tiles::Warpgroups)
}
