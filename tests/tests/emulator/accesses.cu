// Ways to access memory, one an entry, each by one warp: what they cost is known. All write out[lane] at the end.

#include "simt.cuh"

constexpr int WORDS = 2048;

// A word for each lane, side by side.
extern "C" __global__ void side_by_side(const uint32* in, uint32* out) {
    out[threadIdx.x] = in[threadIdx.x];
}

// A word for each lane, 32 bytes apart.
extern "C" __global__ void apart(const uint32* in, uint32* out) {
    out[threadIdx.x] = in[8 * threadIdx.x];
}

// 16 bytes for each lane, side by side.
extern "C" __global__ void vectors_of_four(const uint32* in, uint32* out) {
    const uint4 four = reinterpret_cast<const uint4*>(in)[threadIdx.x];
    out[threadIdx.x] = four.x + four.w;
}

// The same word for all, three times.
extern "C" __global__ void again(const uint32* in, uint32* out) {
    uint32 sum = 0;
    for (int i = 0; i < 3; ++i) {
        sum += in[0];
        __syncwarp();
    }
    out[threadIdx.x] = sum;
}

// Every other lane, twice as often as there is a barrier.
extern "C" __global__ void halves(const uint32* in, uint32* out) {
    uint32 sum = 0;
    if (threadIdx.x % 2 == 0) {
        for (int i = 0; i < 2; ++i) {
            sum += in[32 * i + threadIdx.x];
        }
    }
    out[threadIdx.x] = sum;
}

// A word in shared memory for each lane, `step` words apart.
extern "C" __global__ void banks(const uint32* in, uint32* out, int step) {
    SHARED_ARRAY(uint32, words, WORDS);
    const int place = step * threadIdx.x;
    words[place] = threadIdx.x;
    __syncwarp();
    out[threadIdx.x] = words[place];
}

// 16 bytes in shared memory for each lane, `step` words apart.
extern "C" __global__ void wide_banks(const uint32* in, uint32* out, int step) {
    SHARED_ARRAY(uint32, words, WORDS);
    uint4* const place = reinterpret_cast<uint4*>(words + step * threadIdx.x);
    *place = {1, 2, 3, threadIdx.x};
    __syncwarp();
    out[threadIdx.x] = place->w;
}

// Rows of matrices `step` words apart, copied there asynchronously from 512 bytes side by side.
extern "C" __global__ void matrices_of_rows(const uint32* in, uint32* out, int step) {
    SHARED_ARRAY(uint32, words, WORDS);
    uint32* const row = words + step * threadIdx.x;
    cp_async16(row, in + 4 * threadIdx.x, 16);
    cp_async_commit();
    cp_async_wait<0>();
    __syncwarp();
    uint32 fragments[1][4];
    ldmatrix_x4(fragments, row, 0);
    out[threadIdx.x] = fragments[0][0] + fragments[0][3];
}
