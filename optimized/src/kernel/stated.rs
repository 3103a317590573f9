//! What the kernels' headers state, and launches need to know: each number is read from the header at compile time.

use reference::contract::{Accumulator, ORDERS, Orders, RoundingContract, TensorCore, WARP};

use super::table::{ADD_RMS_NORM, LAYER_NORM, MTP, QK_NORM_ROPE, RMS_NORM};

/// Products of a chunk of k, which are summed apart.
pub(crate) const K_CHUNK: usize = stated(GEMM, "K_CHUNK") as usize;
/// Values of a row in shared memory at a time.
pub(crate) const K_TILE: usize = stated(GEMM, "K_TILE") as usize;
/// Rows of x, and of w, that a block of `multiply_few_rows` multiplies.
pub(crate) const FEW_ROWS: usize = stated(LINEAR, "FEW_ROWS") as usize;
/// Keys of a tile.
pub(crate) const TILE_KEYS: usize = stated(ATTENTION, "TILE_KEYS") as usize;
/// Tiles of a group of keys.
pub(crate) const GROUP_TILES: usize = stated(ATTENTION, "GROUP_TILES") as usize;
/// Queries of a warp.
pub(crate) const QUERY_ROWS: usize = stated(ATTENTION, "QUERY_ROWS") as usize;
/// Warps of a block that reads all keys.
pub(crate) const PREFILL_WARPS: u32 = stated(PREFILL, "PREFILL_WARPS");
/// Tokens of a block of `block_sparse_attention_prefill`.
pub(crate) const BLOCK_SPARSE_TOKENS: usize = stated(BLOCK_SPARSE_ATTENTION, "TOKENS") as usize;
/// Warps of a block of the indexer.
pub(crate) const INDEXER_WARPS: usize = stated(INDEXER, "WARPS") as usize;
/// Spans of keys of such a block.
pub(crate) const INDEXER_SPANS: usize = stated(INDEXER, "SPANS") as usize;
/// Warps of a block of `indexer_few_rows`.
pub(crate) const INDEXER_FEW_WARPS: usize = stated(INDEXER, "FEW_WARPS") as usize;
/// Warps of a block of `indexer_choose` at most.
pub(crate) const INDEXER_CHOOSE_WARPS: usize = stated(CHOICE, "CHOOSE_WARPS") as usize;
/// Blocks that a lane of such a block looks at together.
pub(crate) const INDEXER_CHOOSE_BLOCKS: usize = stated(CHOICE, "CHOOSE_BLOCKS") as usize;
/// Lanes of a warp.
pub(crate) const WARP_LANES: usize = stated(SIMT, "WARP_LANES") as usize;
/// Values of a vector.
pub(crate) const VECTOR: usize = stated(VECTORS, "VECTOR") as usize;

/// Ranks of a group at most.
pub(crate) const MOST_RANKS: usize = stated(ALL_REDUCE, "MOST_RANKS") as usize;

/// Products of a step of the tensor cores.
const K_STEP: usize = stated(GEMM, "K_STEP") as usize;

/// What kernels do is what the reference does when it takes sums in their order.
const _: () = {
    let Orders { row, projection, head, router, tiles } = ORDERS;
    let threads = [RMS_NORM, ADD_RMS_NORM, LAYER_NORM, MTP];
    let mut i = 0;
    while i < threads.len() {
        assert!(row.count == threads[i].constant("THREADS") as usize && row.vector == VECTOR);
        i += 1;
    }
    let mut i = 0;
    while i < QK_NORM_ROPE.len() {
        assert!(projection.count == QK_NORM_ROPE[i].constant("THREADS") as usize && projection.vector == 1);
        i += 1;
    }
    assert!(WARP == WARP_LANES && head.count == WARP && head.vector == 1 && router.count == WARP && router.vector == 1);
    assert!(tiles.keys == TILE_KEYS && tiles.group == GROUP_TILES);
    let Accumulator::TensorCore(TensorCore { k, promote: Some(promote), .. }) = RoundingContract::PARITY.accumulator
    else {
        panic!("our kernels add up chunks")
    };
    assert!(k as usize == K_STEP && promote as usize == K_CHUNK);
};

const GEMM: &str = include_str!("../../kernels/include/gemm.cuh");
const LINEAR: &str = include_str!("../../kernels/include/linear.cuh");
const ATTENTION: &str = include_str!("../../kernels/include/attention.cuh");
const PREFILL: &str = include_str!("../../kernels/include/prefill.cuh");
const CHOICE: &str = include_str!("../../kernels/include/choice.cuh");
const SIMT: &str = include_str!("../../kernels/include/simt.cuh");
const VECTORS: &str = include_str!("../../kernels/include/bf16x8.cuh");
const BLOCK_SPARSE_ATTENTION: &str = include_str!("../../kernels/block_sparse_attention.cu");
const ALL_REDUCE: &str = include_str!("../../kernels/all_reduce.cu");
const INDEXER: &str = include_str!("../../kernels/indexer.cu");

/// The whole number of `constexpr int NAME = …;`: a compile error if the text has none, or an expression.
const fn stated(text: &str, name: &str) -> u32 {
    let (text, name) = (text.as_bytes(), name.as_bytes());
    let mut at = 0;
    while at < text.len() {
        let value = after(text, at, b"constexpr int ");
        let value = if value == 0 { 0 } else { after(text, value, name) };
        let value = if value == 0 { 0 } else { after(text, value, b" = ") };
        if value != 0 {
            return whole_number(text, value);
        }
        at += 1;
    }
    panic!("no header states a constant of this name")
}

/// Where `text` goes on after `word`, if it has that at `at`; else 0.
const fn after(text: &[u8], at: usize, word: &[u8]) -> usize {
    let mut i = 0;
    while i < word.len() {
        if at + i >= text.len() || text[at + i] != word[i] {
            return 0;
        }
        i += 1;
    }
    at + i
}

/// The digits at `at`, up to a semicolon.
const fn whole_number(text: &[u8], mut at: usize) -> u32 {
    let mut number = 0;
    while text[at] != b';' {
        assert!(text[at].is_ascii_digit(), "the constant is an expression: state a number");
        number = 10 * number + (text[at] - b'0') as u32;
        at += 1;
    }
    number
}

#[cfg(test)]
mod tests {
    use super::stated;

    #[test]
    fn numbers_are_found_by_their_whole_name() {
        let text = "// constexpr\nconstexpr int ROWS_OF = 7;\nconstexpr int ROWS = 16;\n";
        assert_eq!((stated(text, "ROWS"), stated(text, "ROWS_OF")), (16, 7));
        assert!(std::panic::catch_unwind(|| stated(text, "ROW")).is_err());
        assert!(std::panic::catch_unwind(|| stated("constexpr int A = 2 * B;", "A")).is_err());
    }
}
