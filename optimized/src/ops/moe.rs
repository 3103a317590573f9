//! Launches `kernels/moe.cu`.

use cudarc::driver::{CudaFunction, LaunchArgs, LaunchConfig, PushKernelArg};
use half::bf16;

use reference::contract::{Linear, Moe, RoundingContract, Semantics, WithShared, require};

use super::linear::tile_bytes;
use super::router::Routed;
use super::{Activation, count, dimension, optional, optional_mut};
use crate::device::{Gpu, Grid};
use crate::error::Error;
use crate::kernel::Kernel;
use crate::kernel::stated::VECTOR;
use crate::kernel::table::{MOE_16, MOE_16_E4M3, MOE_64, MOE_64_E4M3, MOE_WARPGROUPS, MOE_WARPGROUPS_E4M3};
use crate::tensor::Matrix;
use crate::tiles::Tiles;
use crate::weight::{WeightMatrix, WeightView};

/// Integers of a tile's entry.
const TILE_ENTRY: usize = 4;
/// From so many rows an expert, on average, tiles of 64 rows are fuller than a quarter.
const ROWS_FOR_64: usize = 16;
/// Of each of [`Tiles`], of weights in bf16 and in E4M3.
const KERNELS: [[Kernel; 2]; 3] = [[MOE_16, MOE_16_E4M3], [MOE_64, MOE_64_E4M3], [MOE_WARPGROUPS, MOE_WARPGROUPS_E4M3]];

/// The weights of a layer's experts, or of a rank's.
#[derive(Debug)]
pub struct Experts {
    /// w1 over w3 of each expert \[E·2I, H\].
    pub gate_up: WeightMatrix,
    /// w2 of each expert \[E·H, I\].
    pub down: WeightMatrix,
    /// The first of them: others are on other ranks.
    pub first: usize,
    /// E.
    pub count: usize,
    /// Of all of them.
    pub activation: Activation,
}

/// What the experts say.
#[derive(Debug)]
pub struct Fed {
    /// Their activations, row i·k + s the s-th choice of token i \[n·k, I\].
    pub hidden: Matrix<bf16>,
    /// Their outputs \[n·k, H\].
    pub outputs: Matrix<bf16>,
    /// The weighted sum \[n, H\].
    pub sum: Matrix<bf16>,
    /// The sum, scaled, and what the shared expert says \[n, H\], if there is one.
    pub with_shared: Option<Matrix<bf16>>,
}

/// What the expert that all tokens share says, and by what the others' sum is scaled.
#[derive(Debug, Clone, Copy)]
pub struct Shared<'a> {
    /// h \[n, H\].
    pub output: &'a Matrix<bf16>,
    /// ς.
    pub scale: f32,
}

/// y of x \[n, H\], the router's choice and the experts; and z, if there is an expert that all share. What experts say that are on
/// other ranks is 0.
///
/// C1 to C3: the reference's, and `linear`'s. K1: the experts are the router's, or some of them. K3: their weights' rows are
/// those of all, and sizes are below 2³¹. K5: a block has room. K6: tiles of both products have as many rows.
/// K10: a Hopper GPU for [`Tiles::Warpgroups`].
pub fn moe(
    gpu: &Gpu,
    x: &Matrix<bf16>,
    routed: &Routed,
    experts: &Experts,
    shared: Option<Shared<'_>>,
) -> Result<Fed, Error> {
    let (n, k) = routed.chosen.dim();
    let tiles = Tiles::suiting(gpu, n * k >= ROWS_FOR_64 * experts.count);
    moe_tiled(gpu, tiles, x, routed, experts, shared)
}

/// The same, in tiles of the caller's choice.
pub fn moe_tiled(
    gpu: &Gpu,
    tiles: Tiles,
    x: &Matrix<bf16>,
    routed: &Routed,
    experts: &Experts,
    shared: Option<Shared<'_>>,
) -> Result<Fed, Error> {
    let ((n, h), k) = (x.dim(), routed.chosen.dim().1);
    let (gate_up, down) = (WeightView::from(&experts.gate_up), WeightView::from(&experts.down));
    let intermediate = down.dim().1;
    let scored = routed.logits.dim().1;
    Linear::under(&RoundingContract::PARITY).check(x.dim(), gate_up.dim())?;
    let end = experts.first + experts.count;
    require(end <= scored, "moe K1", "experts", end, format!("at most those of the router, {scored}"))?;
    let rows = [gate_up.dim().0, down.dim().0];
    let expected = [2 * intermediate * experts.count, h * experts.count];
    require(rows[0] == expected[0], "moe K3", "rows(w1, w3)", rows[0], format!("2·I·E = {}", expected[0]))?;
    require(rows[1] == expected[1], "moe K3", "rows(w2)", rows[1], format!("H·E = {}", expected[1]))?;
    Moe::under(&RoundingContract::PARITY).check(n * k, routed.weights.dim(), routed.chosen.dim())?;
    if let Some(Shared { output, scale }) = shared {
        let p = WithShared::under(&RoundingContract::PARITY, &Semantics::RELEASED, scale.into());
        p.check((n, h), output.dim())?;
    }

    let launch = Launch { gpu, kernel: gpu.launched(tiles.kernel(&KERNELS, gate_up)), k: dimension("moe K3", "k", k)? };
    let of_down = Launch { kernel: gpu.launched(tiles.kernel(&KERNELS, down)), ..launch };
    let [own, other] = [launch, of_down].map(|launch| launch.kernel.constant("TILE_ROWS") as usize);
    require(own == other, "moe K6", "rows of a tile of w2", other, format!("those of a tile of w1 and w3, {own}"))?;
    gpu.require_warpgroups("moe K10", &launch.kernel)?;
    let (order, tiles) = launch.place(routed, experts)?;
    let are_all = experts.count == scored;
    let of_choices = |width| if are_all { gpu.uninitialised((n * k, width)) } else { gpu.zeros((n * k, width)) };
    let mut fed = Fed {
        hidden: of_choices(intermediate)?,
        outputs: of_choices(h)?,
        sum: gpu.uninitialised((n, h))?,
        with_shared: shared.map(|_| gpu.uninitialised((n, h))).transpose()?,
    };
    launch.gate_up(x, experts, &order, &tiles, &mut fed.hidden)?;
    of_down.down(&fed.hidden, experts, &order, &tiles, &mut fed.outputs)?;
    launch.combine((routed, (!are_all).then_some(experts)), shared, &mut fed)?;
    Ok(fed)
}

/// The kernel, in one tiling and of weights as they are stored, for tokens of k choices.
#[derive(Clone, Copy)]
struct Launch<'a> {
    gpu: &'a Gpu,
    kernel: Kernel,
    k: i32,
}

impl Launch<'_> {
    /// The choices in the order of experts, and the experts' tiles.
    fn place(&self, routed: &Routed, experts: &Experts) -> Result<(Matrix<i32>, Matrix<i32>), Error> {
        let (n, k) = routed.chosen.dim();
        let first_expert = dimension("moe K3", "first expert", experts.first)?;
        let experts = experts.count;
        let mut order = self.gpu.uninitialised((1, n * k))?;
        let mut tiles = self.gpu.uninitialised((1, (self.most_tiles(n * k, experts) + 1) * TILE_ENTRY))?;
        let tokens = dimension("moe K3", "n", n)?;
        let ldk = dimension("moe K3", "ld(C)", routed.chosen.ld())?;
        let threads = self.kernel.constant("PLACE_THREADS");
        if n * k <= threads as usize {
            let here = dimension("moe K3", "experts", experts)?;
            let grid = self.gpu.with_shared("moe K5", Grid { blocks: (1, 1), threads }, threads * 2 * 4)?;
            let function = self.function("moe_place_few")?;
            let mut launch = self.gpu.launch(&function);
            launch.arg(routed.chosen.data()).arg(order.data_mut()).arg(tiles.data_mut());
            launch.arg(&tokens).arg(&self.k).arg(&ldk).arg(&first_expert).arg(&here);
            // K1 and K2 by `Routed` and the allocations; K9 by the condition.
            self.run(launch, grid, "moe_place_few")?;
            return Ok((order, tiles));
        }
        let mut counts = self.gpu.uninitialised::<i32>((1, experts))?;
        let grid = Grid { blocks: (count(experts), 1), threads };
        let placing = self.gpu.with_shared("moe K5", grid, threads / 32 * 4)?;
        let function = self.function("moe_count")?;
        let mut launch = self.gpu.launch(&function);
        launch.arg(routed.chosen.data()).arg(counts.data_mut()).arg(&tokens).arg(&self.k).arg(&ldk);
        launch.arg(&first_expert);
        // K1 and K2 by `Routed` and the allocations.
        self.run(launch, grid.into(), "moe_count")?;
        let function = self.function("moe_place")?;
        let mut launch = self.gpu.launch(&function);
        launch.arg(routed.chosen.data()).arg(counts.data()).arg(order.data_mut()).arg(tiles.data_mut());
        launch.arg(&tokens).arg(&self.k).arg(&ldk).arg(&first_expert);
        // K1 and K2 by `Routed`, the allocations and the launch before.
        self.run(launch, placing, "moe_place")?;
        Ok((order, tiles))
    }

    fn gate_up(
        &self,
        x: &Matrix<bf16>,
        experts: &Experts,
        order: &Matrix<i32>,
        tiles: &Matrix<i32>,
        hidden: &mut Matrix<bf16>,
    ) -> Result<(), Error> {
        let (choices, intermediate) = hidden.dim();
        let sizes = [("H", x.dim().1), ("I", intermediate), ("ld(x)", x.ld()), ("ld(hidden)", hidden.ld())];
        let arguments = narrow(sizes)?;
        let weight = WeightView::from(&experts.gate_up).argument("moe K3")?;
        let grid = self.grid(self.most_tiles(choices, experts.count), 2 * hidden.ld())?;
        let coefficients = experts.activation.arguments();
        let function = self.function("moe_gate_up")?;
        let mut launch = self.gpu.launch(&function);
        launch.arg(x.data()).arg(&weight).arg(order.data()).arg(tiles.data()).arg(hidden.data_mut());
        launch.arg(&self.k);
        for argument in &arguments {
            launch.arg(argument);
        }
        for coefficient in &coefficients {
            launch.arg(coefficient);
        }
        // K2 by `place`; K3 by the checks and `Matrix`; K4 by the allocation; K5 by `grid`.
        self.run(launch, grid, "moe_gate_up")
    }

    fn down(
        &self,
        hidden: &Matrix<bf16>,
        experts: &Experts,
        order: &Matrix<i32>,
        tiles: &Matrix<i32>,
        outputs: &mut Matrix<bf16>,
    ) -> Result<(), Error> {
        let (choices, h) = outputs.dim();
        let sizes = [("H", h), ("I", hidden.dim().1), ("ld(hidden)", hidden.ld()), ("ld(outputs)", outputs.ld())];
        let arguments = narrow(sizes)?;
        let weight = WeightView::from(&experts.down).argument("moe K3")?;
        let grid = self.grid(self.most_tiles(choices, experts.count), outputs.ld())?;
        let function = self.function("moe_down")?;
        let mut launch = self.gpu.launch(&function);
        launch.arg(hidden.data()).arg(&weight).arg(order.data()).arg(tiles.data()).arg(outputs.data_mut());
        for argument in &arguments {
            launch.arg(argument);
        }
        // K2 by `place`; K3 by the checks and `Matrix`; K4 by the allocation; K5 by `grid`.
        self.run(launch, grid, "moe_down")
    }

    /// Of the experts' outputs, or of `some` of them.
    fn combine(
        &self,
        (routed, some): (&Routed, Option<&Experts>),
        shared: Option<Shared<'_>>,
        fed: &mut Fed,
    ) -> Result<(), Error> {
        let Fed { outputs, sum, with_shared, .. } = fed;
        let (first, count_here) = some.map_or((0, 0), |experts| (experts.first, experts.count));
        let lds = [("ld(outputs)", outputs.ld()), ("ld(w)", routed.weights.ld()), ("ld(C)", routed.chosen.ld())];
        let [ldh, ldk, ldc] = narrow(lds)?;
        let [first, count_here] = narrow([("first expert", first), ("experts", count_here)])?;
        let scale = shared.map_or(1.0, |shared| shared.scale);
        let threads = self.kernel.constant("PLACE_THREADS");
        let columns = count(sum.ld() / VECTOR).div_ceil(threads);
        let grid = Grid { blocks: (count(sum.dim().0), columns), threads };
        let function = self.function("moe_combine")?;
        let mut launch = self.gpu.launch(&function);
        launch.arg(outputs.data()).arg(routed.weights.data());
        optional(&mut launch, some.map(|_| &routed.chosen));
        optional(&mut launch, shared.map(|shared| shared.output));
        launch.arg(sum.data_mut());
        optional_mut(&mut launch, with_shared.as_mut());
        launch.arg(&self.k).arg(&ldh).arg(&ldk).arg(&ldc).arg(&first).arg(&count_here).arg(&scale);
        // K3 and K4 by C3 and the allocations; K7 by `some`.
        self.run(launch, grid.into(), "moe_combine")
    }

    fn function(&self, entry: &str) -> Result<CudaFunction, Error> {
        self.gpu.function(&self.kernel, entry)
    }

    /// Launches with all arguments given.
    fn run(&self, mut launch: LaunchArgs<'_>, grid: LaunchConfig, entry: &str) -> Result<(), Error> {
        #[expect(unsafe_code, reason = "a launch cannot be checked")]
        // SAFETY: each caller says by what its K hold.
        let done = unsafe { launch.launch(grid) };
        self.gpu.outcome(done, || format!("{} {entry}", self.kernel.label()))?;
        Ok(())
    }

    /// No distribution of the choices has more tiles.
    fn most_tiles(&self, choices: usize, experts: usize) -> usize {
        choices / self.kernel.constant("TILE_ROWS") as usize + experts.min(choices)
    }

    fn grid(&self, tiles: usize, columns: usize) -> Result<LaunchConfig, Error> {
        let constant = |name| self.kernel.constant(name);
        let blocks = (count(tiles), count(columns).div_ceil(constant("TILE_COLS")));
        let threads = 32 * constant("WARPS_DOWN") * constant("WARPS_ACROSS");
        self.gpu.with_shared("moe K5", Grid { blocks, threads }, tile_bytes(&self.kernel))
    }
}

fn narrow<const N: usize>(sizes: [(&'static str, usize); N]) -> Result<[i32; N], Error> {
    let mut arguments = [0; N];
    for (argument, (quantity, value)) in arguments.iter_mut().zip(sizes) {
        *argument = dimension("moe K3", quantity, value)?;
    }
    Ok(arguments)
}
