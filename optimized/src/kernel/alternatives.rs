//! Which other values of a kernel's constants give the same bits.
//!
//! A constant that decides the order of a sum has none: the order of sums is part of what an operator is. So THREADS of the
//! norms is not here, nor D, which follows from the model.

use super::Kernel;

/// Values that a constant may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alternatives {
    /// Of which operators' kernels.
    pub ops: &'static [&'static str],
    /// The constant.
    pub constant: &'static str,
    /// The entries that it makes a difference to; all, if none is named.
    pub entries: &'static [&'static str],
    /// Its values, upward.
    pub values: &'static [u32],
}

/// Operators that multiply matrices in tiles.
const TILED: &[&str] = &["linear", "linear_bias", "dense_ffn", "moe"];
/// Their entries.
const TILES: &[&str] = &["linear_tiles", "linear_bias_tiles", "dense_ffn_gate_up", "moe_gate_up", "moe_down"];
const FEW_ROWS: &[&str] = &["linear_few_rows", "linear_bias_few_rows"];
const PLACING: &[&str] = &["moe_count", "moe_place", "moe_place_few", "moe_combine"];
const SCORING: &[&str] = &["router_scores"];
const SCORING_FEW: &[&str] = &["router_scores_few"];
const CHOOSING: &[&str] = &["router_choose"];

/// All of them.
pub const ALTERNATIVES: &[Alternatives] = &[
    Alternatives { ops: TILED, constant: "TILE_ROWS", entries: TILES, values: &[16, 32, 64, 128] },
    Alternatives { ops: TILED, constant: "TILE_COLS", entries: TILES, values: &[32, 64, 128, 256] },
    Alternatives { ops: TILED, constant: "WARPS_DOWN", entries: TILES, values: &[1, 2, 4, 8] },
    Alternatives { ops: TILED, constant: "WARPS_ACROSS", entries: TILES, values: &[1, 2, 4, 8] },
    Alternatives { ops: TILED, constant: "STAGES", entries: TILES, values: &[3, 4, 5, 6, 8] },
    Alternatives {
        ops: &["linear", "linear_bias"],
        constant: "FEW_STAGES",
        entries: FEW_ROWS,
        values: &[3, 4, 5, 6, 8],
    },
    Alternatives { ops: &["moe"], constant: "PLACE_THREADS", entries: PLACING, values: &[64, 128, 256, 512, 1024] },
    Alternatives { ops: &["router"], constant: "BLOCK_TOKENS", entries: SCORING, values: &[1, 2, 4, 8, 16] },
    Alternatives { ops: &["router"], constant: "WARP_EXPERTS", entries: SCORING, values: &[1, 2, 4, 8] },
    Alternatives { ops: &["router"], constant: "BLOCK_WARPS", entries: SCORING, values: &[1, 2, 4, 8] },
    Alternatives { ops: &["router"], constant: "AHEAD", entries: SCORING, values: &[1, 2, 4, 8] },
    Alternatives { ops: &["router"], constant: "FEW_WARPS", entries: SCORING_FEW, values: &[1, 2, 4, 8] },
    Alternatives { ops: &["router"], constant: "CHOOSE_THREADS", entries: CHOOSING, values: &[64, 128, 256, 512] },
    Alternatives { ops: &["embedding"], constant: "THREADS", entries: &[], values: &[32, 64, 128, 256, 512] },
    Alternatives { ops: &["sampling"], constant: "THREADS", entries: &[], values: &[128, 256, 512, 1024] },
];

impl Alternatives {
    /// Those of a kernel's constants that make a difference to one of `entries`.
    pub fn of(kernel: &Kernel, entries: &[&str]) -> Vec<Alternatives> {
        let acts =
            |known: &&Alternatives| known.entries.is_empty() || entries.iter().any(|e| known.entries.contains(e));
        let all = ALTERNATIVES.iter().filter(|known| known.ops.contains(&kernel.op));
        all.filter(|known| kernel.get(known.constant).is_some()).filter(acts).copied().collect()
    }
}

/// Why a kernel with such constants cannot be compiled, as its headers assert; `None` if they assert nothing against it.
pub fn why_not(kernel: &Kernel) -> Option<String> {
    let constant = |name| kernel.get(name);
    if let (Some(rows), Some(cols)) = (constant("TILE_ROWS"), constant("TILE_COLS")) {
        let (down, across) = (constant("WARPS_DOWN")?, constant("WARPS_ACROSS")?);
        let threads = 32 * down * across;
        // A thread copies 8 of a row's 64 values at a time.
        let rows_at_once = threads / 8;
        let whole = |count: u32, warps: u32| count.is_multiple_of(16 * warps);
        if !whole(rows, down) || !whole(cols, across) {
            return Some(format!("{rows} × {cols} are not whole fragments of 16 for {down} × {across} warps"));
        }
        if !rows.is_multiple_of(rows_at_once) || !cols.is_multiple_of(rows_at_once) {
            return Some(format!("{threads} threads do not copy {rows} and {cols} rows in equal parts"));
        }
        let of_warpgroups = rows == 16 * down && down.is_multiple_of(4) && (cols, across) == (128, 1);
        if kernel.is_of_warpgroups() && !of_warpgroups {
            return Some(format!(
                "{rows} × {cols} are no tile of warpgroups, 64 × 128 each, of {down} × {across} warps"
            ));
        }
    }
    None
}
