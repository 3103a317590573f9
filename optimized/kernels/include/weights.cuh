// Weights of products, as they are stored: in bf16, or in E4M3 with a scale for each block of columns of a row.
//
// Quantized ones stay so in global memory, where a value takes one byte instead of two, and are dequantized in shared memory:
// q·s in f32, then rounded, to nearest even, to bf16. So the products are those of the weight that was taken to bf16 before.
#pragma once

#include "gemm.cuh"

static_assert(WEIGHTS == 16 || WEIGHTS == 8, "weights are bf16 or E4M3");

// A weight in global memory; what follows `ld` is of quantized ones. Rows of values are 16-byte aligned.
struct Weight {
    const void* values;
    const void* scales;    // f32, or the exponents of powers of two (E8M0)
    const int* scale_rows; // of each row, the row of its scales
    int ld;                // values from one row to the next
    int scale_ld;          // scales from one row to the next
    int block_bits;        // a scale is that of 2^block_bits columns
    int scale_bytes;       // 4, or 1
};

// 2 to the power of a byte less 127; 255 is no number.
DEVICE float e8m0_to_float(uint32 byte) {
    constexpr uint32 TWO_TO_MINUS_127 = 0x00400000;
    return __uint_as_float(byte == 0 ? TWO_TO_MINUS_127 : byte == 255 ? 0x7fffffff : byte << 23);
}

// Eight of them from the first byte of `low` on, scaled, in bf16.
DEVICE uint4 dequantized(uint32 low, uint32 high, float scale) {
    Floats8 values;
#pragma unroll
    for (int i = 0; i < VECTOR; i += 2) {
        const float2 pair = e4m3_pair_to_floats((i < 4 ? low : high) >> i % 4 * 8);
        values.values[i] = pair.x * scale;
        values.values[i + 1] = pair.y * scale;
    }
    return pack(values);
}

// A quantized row; its values from `length` on count as zero.
struct QuantizedRow {
    const unsigned char* values;
    const void* scales;
    int length;
    int block_bits;
    int scale_bytes;

    // The word that has the scale of value k, if there is that value. Nothing is made of it before it is needed, so that nobody
    // waits for it.
    __device__ __forceinline__ uint32 scale_word(int k) const {
        return k < length ? static_cast<const uint32*>(scales)[(k >> block_bits) * scale_bytes / 4] : 0;
    }

    __device__ __forceinline__ float scale(uint32 word, int k) const {
        return scale_bytes == 1 ? e8m0_to_float(word >> (k >> block_bits) % 4 * 8 & 0xff) : __uint_as_float(word);
    }
};

// Values that a thread copies at once: 16 bytes.
constexpr int PIECE = 16;

// How quantized rows come to the tensor cores: as `Panels`, but what arrives are bytes, and a thread dequantizes those that it
// copied itself to a panel of bf16. TURNS panels take turns, so that one is written while others are still multiplied.
template <int ROWS, int COPIERS, int DEPTH, int TURNS>
struct QuantizedPanels {
    static constexpr int PIECES = K_TILE / PIECE;
    static constexpr int ROWS_AT_ONCE = COPIERS / PIECES;
    static constexpr int OWN = ROWS / ROWS_AT_ONCE;
    static_assert(ROWS % ROWS_AT_ONCE == 0, "every thread copies as much");
    struct Shared {
        Panel<ROWS> panels[TURNS];
        uint4 bytes[DEPTH][OWN][COPIERS];
    };

    QuantizedRow rows[OWN];
    // Of the panels that are the next to arrive: the words of scales, and the first value of a piece.
    uint32 words[LOOK_AHEAD][OWN];
    int firsts[LOOK_AHEAD];
    int thread;

    template <class RowAt>
    __device__ __forceinline__ QuantizedPanels(int number, RowAt row_at) : words(), firsts(), thread(number) {
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            rows[i] = row_at(thread / PIECES + i * ROWS_AT_ONCE);
        }
    }

    __device__ __forceinline__ void begin(Shared& shared, int number, int k) const {
        const int first = k + thread % PIECES * PIECE;
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const int bytes = min(max(rows[i].length - first, 0), PIECE);
            cp_async16(&shared.bytes[number % DEPTH][i][thread], rows[i].values + (bytes == 0 ? 0 : first), bytes);
        }
    }

    __device__ __forceinline__ void look_ahead(int k) {
#pragma unroll
        for (int panel = 1; panel < LOOK_AHEAD; ++panel) {
            firsts[panel - 1] = firsts[panel];
#pragma unroll
            for (int i = 0; i < OWN; ++i) {
                words[panel - 1][i] = words[panel][i];
            }
        }
        firsts[LOOK_AHEAD - 1] = k + thread % PIECES * PIECE;
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            words[LOOK_AHEAD - 1][i] = rows[i].scale_word(firsts[LOOK_AHEAD - 1]);
        }
    }

    __device__ __forceinline__ Panel<ROWS>& arrived(Shared& shared, int number) const {
        Panel<ROWS>& panel = shared.panels[number % TURNS];
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const uint4 bytes = shared.bytes[number % DEPTH][i][thread];
            const int row = thread / PIECES + i * ROWS_AT_ONCE;
            const int index = thread % PIECES * 2;
            const float scale = rows[i].scale(words[0][i], firsts[0]);
            *reinterpret_cast<uint4*>(panel.vector(row, index)) = dequantized(bytes.x, bytes.y, scale);
            *reinterpret_cast<uint4*>(panel.vector(row, index + 1)) = dequantized(bytes.z, bytes.w, scale);
        }
        return panel;
    }
};

// How weights are stored, by the bits of a value: their rows, and how these come to the tensor cores.
template <int BITS>
struct Stored;

template <>
struct Stored<16> {
    using Row = ::Row;
    template <int ROWS, int COPIERS, int DEPTH, int TURNS = 2>
    using Panels = ::Panels<ROWS, COPIERS, DEPTH>;

    // The first k values of a row.
    static __device__ __forceinline__ Row row(const Weight& w, int64 row, int k) {
        return {static_cast<const bf16*>(w.values) + row * w.ld, k};
    }
};

template <>
struct Stored<8> {
    using Row = QuantizedRow;
    template <int ROWS, int COPIERS, int DEPTH, int TURNS = 2>
    using Panels = QuantizedPanels<ROWS, COPIERS, DEPTH, TURNS>;

    static __device__ __forceinline__ Row row(const Weight& w, int64 row, int k) {
        const int64 first_scale = int64(w.scale_rows[row]) * w.scale_ld;
        return {static_cast<const unsigned char*>(w.values) + row * w.ld,
                static_cast<const unsigned char*>(w.scales) + first_scale * w.scale_bytes, k, w.block_bits, w.scale_bytes};
    }
};

using Weights = Stored<WEIGHTS>;

// The first k values of a weight's row; beyond its last row, zeros.
DEVICE Weights::Row row_of(const Weight& w, int row, int rows, int k) {
    return row < rows ? Weights::row(w, row, k) : Weights::row(w, 0, 0);
}
