//! The dynamic shared memory of every launch, for the released models' shapes, on every GPU that the kernels are meant for.

use half::bf16;
use ndarray::Array2;
use optimized::kernel::table::{KERNELS, LINEAR_64_BF16, ROUTER};
use optimized::ops::attention::{Cut, prefill_bytes, split_bytes};
use optimized::ops::linear::{Output, Tiling, linear_tiled, tile_bytes};
use optimized::ops::router::Tokens;
use optimized::ops::{block_sparse_attention, indexer, router as routing};
use optimized::shared_memory::{TARGETS, require_room};
use tests::device::devices;

/// Channels of a head of both models, and of M3's indexer.
const HEAD: usize = 128;

/// What is multiplied by a weight: M2's stream and heads and experts, M3's, and its dense network and vision tower.
const WIDTHS: [usize; 8] = [1536, 3072, 6144, 8192, 12288, 1176, 1280, 5120];

/// d and E of M2's routers, and of M3's.
const ROUTERS: [(usize, usize); 2] = [(3072, 256), (6144, 128)];

/// Shared memory of a block of a Hopper's, which has warpgroups.
const HOPPER: u32 = 227 << 10;

/// Every launch that asks for shared memory, as a device with so much of it makes it: its constraint and bytes.
fn needs(most: u32) -> Vec<(String, &'static str, u32)> {
    let mut all: Vec<(String, &'static str, u32)> = Vec::new();
    for kernels in [bf16::KERNELS, f32::KERNELS, bf16::QUANTIZED, f32::QUANTIZED] {
        for k in WIDTHS {
            let tiling = Tiling::of(1, 6144, k).with_room(&kernels, (1, k), most);
            let bytes = tiling.shared_bytes(&kernels.small, (1, k));
            all.push((format!("linear of few rows, k = {k}"), "linear K6", bytes));
        }
        let tiling = Tiling::of(4096, 6144, 6144).with_room(&kernels, (4096, 6144), most);
        let kernel = if tiling == Tiling::Large { &kernels.large } else { &kernels.small };
        all.push((kernel.label(), "linear K6", tile_bytes(kernel)));
        if most == HOPPER {
            all.push((kernels.warpgroups.label(), "linear K6", tile_bytes(&kernels.warpgroups)));
        }
        all.push((kernels.small.label(), "linear K6", tile_bytes(&kernels.small)));
    }
    for (op, label) in [("moe", "moe K5"), ("dense_ffn", "dense_ffn K5")] {
        let of_op = KERNELS.iter().filter(|kernel| kernel.op == op && (!kernel.is_of_warpgroups() || most == HOPPER));
        all.extend(of_op.map(|kernel| (kernel.label(), label, tile_bytes(kernel))));
    }
    for (d, experts) in ROUTERS {
        let bytes = match Tokens::of(1, [d; 2], most) {
            Tokens::Few => routing::few_bytes(&ROUTER, [d; 2]),
            Tokens::Many => routing::choose_bytes(experts),
        };
        all.push((format!("router, d = {d}"), "router K3", bytes));
    }
    let prefill = prefill_bytes(HEAD);
    let decode = if Cut::of(1, HEAD, most) == Cut::Keys { split_bytes(HEAD) } else { prefill };
    let sparse = block_sparse_attention::prefill_bytes(HEAD);
    let sparse_decode = if Cut::of(1, HEAD, most) == Cut::Keys { split_bytes(HEAD) } else { sparse };
    let attention = [("of many tokens", prefill, sparse), ("of one token", decode, sparse_decode)];
    for (when, dense, sparse) in attention {
        all.push((format!("attention {when}"), "attention K6", dense));
        all.push((format!("block-sparse attention {when}"), "block_sparse_attention K7", sparse));
    }
    all.push(("indexer".into(), "indexer K5", indexer::shared_bytes(HEAD)));
    all.push(("indexer of few rows".into(), "indexer K5", indexer::few_bytes(HEAD)));
    all
}

/// A100s and Hoppers run all of it. GPUs with 99 KB a block run all but attention of wide heads, which says so.
#[test]
fn every_shape_has_room_or_a_reason() {
    for (target, most) in TARGETS {
        let refused: Vec<String> = needs(most)
            .into_iter()
            .filter_map(|(_, label, bytes)| require_room(label, bytes, most).err())
            .map(|refusal| refusal.to_string())
            .collect();
        if ["sm_86", "sm_89"].contains(&target) {
            let of_attention = |refusal: &String| refusal.contains("attention K");
            assert!(refused.iter().all(of_attention), "{target}: {refused:#?}");
            assert_eq!(
                refused[0],
                "attention K6: bytes of shared memory of a block = 102400, expected at most 101376, this device's"
            );
        } else {
            assert_eq!(refused, Vec::<String>::new(), "{target}");
        }
    }
}

/// Where a GPU has no room for the cut or the tiling of a decode, it takes the other, which gives the same bits.
#[test]
fn a_smaller_gpu_cuts_otherwise() {
    let [a100, ada, hopper] = ["sm_80", "sm_89", "sm_90"]
        .map(|name| TARGETS.into_iter().find(|(target, _)| *target == name).expect("it is known").1);
    assert_eq!([ada, a100, hopper].map(|most| Cut::of(1, HEAD, most)), [Cut::Queries, Cut::Keys, Cut::Keys]);
    assert_eq!([a100, ada].map(|most| Cut::of(1, 64, most)), [Cut::Keys; 2]);
    let few = |most| Tiling::FewRows.with_room(&bf16::KERNELS, (16, 6144), most);
    assert_eq!([ada, a100, hopper].map(few), [Tiling::Small, Tiling::FewRows, Tiling::FewRows]);
    let large = |most| Tiling::Large.with_room(&bf16::QUANTIZED, (4096, 6144), most);
    assert_eq!([ada, a100, hopper].map(large), [Tiling::Small, Tiling::Large, Tiling::Large]);
}

/// The host says it before the launch: eight warps with a ring of twelve stages, of 16 rows of w and one of x with 64 values each and
/// a row of zeros, and the sums of 32 chunks, [16][20] of them, are more than a Hopper's block may have.
#[test]
fn what_has_no_room_is_refused_before_the_launch() {
    let long = LINEAR_64_BF16.with("FEW_STAGES", 12).expect("it has stages");
    for gpu in devices() {
        gpu.launch_instead(&LINEAR_64_BF16, long);
        let row = |rows| gpu.upload(Array2::from_elem((rows, 16_384), bf16::ONE).view()).expect("memory");
        let refused = linear_tiled::<bf16>(&gpu, Tiling::FewRows, &row(1), &row(16)).expect_err("there is no room");
        let bytes = 8 * (12 * (16 + 1) * 64 * 2 + 128) + 32 * 16 * 20 * 4;
        let most = gpu.shared_bytes();
        let want =
            format!("linear K6: bytes of shared memory of a block = {bytes}, expected at most {most}, this device's");
        assert_eq!(refused.to_string(), want);
    }
}
