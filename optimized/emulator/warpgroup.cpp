// wgmma: a warpgroup's products of factors in shared memory, each warp's part by itself.

#include "warpgroup.h"

#include <cstring>

#include "block.h"

namespace emulator {

namespace {

// What sums are to a warp while they are the tensor cores'.
constexpr uint32_t IN_FLIGHT = 0x7fbadbad;

// Factors are rows of 128 bytes; the 16-byte vectors of each eight, which begin at a multiple of 1024, are permuted.
constexpr uint32_t ROW_BYTES = 128;
constexpr uint32_t EIGHT_ROWS_BYTES = 8 * ROW_BYTES;

// Where the bytes are that lie `bytes` behind the first one of row `row`.
const unsigned char* of_row(const unsigned char* first, int row, uint32_t bytes) {
    const auto address = reinterpret_cast<uintptr_t>(first) + static_cast<uint32_t>(row) * ROW_BYTES + bytes;
    return reinterpret_cast<const unsigned char*>(address ^ (address / ROW_BYTES % 8 * 16));
}

uint32_t pair(const unsigned char* from) {
    uint32_t value;
    memcpy(&value, from, sizeof value);
    return value;
}

// Calls act(row, address) for each 16 bytes of the first `rows` rows of a factor.
template <class Act>
void for_each_vector(const unsigned char* first, int rows, Act act) {
    for (int row = 0; row < rows; ++row) {
        for (uint32_t bytes = 0; bytes < WARPGROUP_K_BYTES; bytes += 16) {
            act(of_row(first, row, bytes));
        }
    }
}

// The same of all that a warp's part of a product reads.
template <class Act>
void for_each_vector(const WarpgroupFactors& factors, int cols, Act act) {
    for_each_vector(factors.a, WARP_ROWS, act);
    for_each_vector(factors.b, 8 * cols, act);
}

// Calls act(value of the tensor core's, value of the lane's) for each of the warp's sums.
template <class Act>
void for_each_sum(WarpProducts& own, Act act) {
    for (uint32_t lane = 0; lane < WARP_LANES; ++lane) {
        for (int i = 0; i < 4 * own.cols; ++i) {
            const uint32_t row = lane / 4 + i % 4 / 2 * 8;
            const uint32_t column = i / 4 * 8 + lane % 4 * 2 + i % 2;
            act(own.values[row][column], own.sums[lane][i]);
        }
    }
}

bool same_bits(float a, float b) {
    return memcmp(&a, &b, sizeof a) == 0;
}

const WarpgroupOperand& operand_of(const Warp& warp, uint32_t lane) {
    return *static_cast<const WarpgroupOperand*>(warp.arrivals[lane].operand);
}

void check_factor(Block& block, Thread& thread, const Warp& warp, const void* factor, uint32_t rows, const char* which) {
    const void* const at = warp.arrivals[0].at;
    const auto place = reinterpret_cast<uintptr_t>(factor);
    if (place % EIGHT_ROWS_BYTES >= ROW_BYTES || place % WARPGROUP_K_BYTES != 0) {
        block.stop(thread, Fault::Misaligned, at,
                   block.name(thread.number) +
                       format(" gives its warpgroup %s factor from %#zx on: it must begin at a multiple of %u, or up to "
                              "three times %u bytes behind one",
                              which, static_cast<size_t>(place), EIGHT_ROWS_BYTES, WARPGROUP_K_BYTES));
    }
    const uint32_t bytes = rows * ROW_BYTES - static_cast<uint32_t>(place % ROW_BYTES);
    if (!block.in_shared(factor, bytes)) {
        block.stop(thread, Fault::OutOfBounds, at,
                   block.name(thread.number) + format(" gives its warpgroup %s factor that is not in the block's shared "
                                                      "memory",
                                                      which));
    }
}

// Every warp of a warpgroup, of which there must be four, begins the same products.
void check_warpgroup(Block& block, Thread& thread, const Warp& warp, const WarpgroupFactors& factors) {
    const void* const at = warp.arrivals[0].at;
    const uint32_t number = thread.number / WARP_LANES;
    if (block.launch->tensor_cores != TensorCores::Hopper) {
        block.stop(thread, Fault::NotOnThisDevice, at, "warpgroups multiply on Hopper only");
    }
    if (block.threads < (number / WARPGROUP_WARPS + 1) * WARPGROUP_WARPS * WARP_LANES) {
        block.stop(thread, Fault::AbsentLane, at,
                   block.name(thread.number) + format(" is of no warpgroup: the block has %u threads", block.threads));
    }
    std::vector<WarpgroupFactors>& begun = block.begun[number / WARPGROUP_WARPS];
    const size_t turn = block.products[number].count;
    if (turn == begun.size()) {
        begun.push_back(factors);
    }
    if (begun[turn].a != factors.a || begun[turn].b != factors.b) {
        block.stop(thread, Fault::DivergentCollective, at,
                   block.name(thread.number) + " begins another product than the other warps of its warpgroup");
    }
}

void take_over(Block& block, Thread& thread, WarpProducts& own, const void* at) {
    bool changed = false;
    for_each_sum(own, [&](float taken, float& of_lane) {
        changed |= !same_bits(taken, of_lane);
        memcpy(&of_lane, &IN_FLIGHT, sizeof of_lane);
    });
    if (changed) {
        block.stop(thread, Fault::MissingFence, at,
                   block.name(thread.number) + " begins a product with sums that changed after warpgroup_begin");
    }
}

void give_back(Block& block, Thread& thread, WarpProducts& own, const void* at) {
    bool changed = false;
    for_each_sum(own, [&](float taken, float& of_lane) {
        changed |= memcmp(&of_lane, &IN_FLIGHT, sizeof of_lane) != 0;
        of_lane = taken;
    });
    own.sums[0] = nullptr;
    if (changed) {
        block.stop(thread, Fault::ProductInFlight, at,
                   block.name(thread.number) + " waits for a product whose sums were written before");
    }
}

// Reads the factors of a product, and adds it to the warp's sums.
void compute(Block& block, Thread& thread, WarpProducts& own, const WarpProduct& product) {
    const auto [a, b] = product.factors;
    if (block.launch->checked()) {
        for_each_vector(product.factors, own.cols, [&](const unsigned char* vector) {
            block.shared_checker.product_ends(thread, block.shared_offset(vector), product.at);
        });
    }
    TensorCore& core = block.tensor_core;
    core.begin(TensorCores::Hopper, Factors::Bf16);
    for (uint32_t i = 0; i < WARPGROUP_K / 2; ++i) {
        for (int row = 0; row < WARP_ROWS; ++row) {
            core.set_a(static_cast<uint32_t>(row), i, pair(of_row(a, row, 4 * i)));
        }
        for (int column = 0; column < 8 * own.cols; ++column) {
            core.set_b(i, static_cast<uint32_t>(column), pair(of_row(b, column, 4 * i)));
        }
    }
    core.prepare(WARP_ROWS, 8 * own.cols);
    for (int row = 0; row < WARP_ROWS; ++row) {
        core.accumulate(row, own.values[row]);
    }
}

} // namespace

void warpgroup_begin(Block& block, Thread& thread, Warp& warp) {
    WarpProducts& own = block.products[thread.number / WARP_LANES];
    if (own.in_flight()) {
        return; // they are handed over already
    }
    own.cols = operand_of(warp, 0).cols;
    for (uint32_t lane = 0; lane < WARP_LANES; ++lane) {
        own.sums[lane] = operand_of(warp, lane).d;
    }
    for_each_sum(own, [](float& taken, float of_lane) { taken = of_lane; });
}

void warpgroup_multiply(Block& block, Thread& thread, Warp& warp) {
    const uint32_t number = thread.number / WARP_LANES;
    const WarpgroupOperand& first = operand_of(warp, 0);
    const void* const at = warp.arrivals[0].at;
    for (uint32_t lane = 1; lane < WARP_LANES; ++lane) {
        if (operand_of(warp, lane).a != first.a || operand_of(warp, lane).b != first.b) {
            block.stop(thread, Fault::DivergentCollective, at, format("lane %u has other factors than lane 0", lane));
        }
    }
    WarpgroupFactors factors = {static_cast<const unsigned char*>(first.a), static_cast<const unsigned char*>(first.b)};
    check_factor(block, thread, warp, factors.a, WARPGROUP_WARPS * WARP_ROWS, "a first");
    check_factor(block, thread, warp, factors.b, 8 * static_cast<uint32_t>(first.cols), "a second");
    check_warpgroup(block, thread, warp, factors);
    WarpProducts& own = block.products[number];
    if (own.sums[0] != first.d) {
        block.stop(thread, Fault::MissingFence, at,
                   block.name(thread.number) + " begins a product with sums that warpgroup_begin did not hand over");
    }
    if (!own.in_flight()) {
        take_over(block, thread, own, at);
    }
    factors.a += number % WARPGROUP_WARPS * WARP_ROWS * ROW_BYTES;
    own.pending.push_back({factors, own.group, at});
    own.count += 1;
    if (block.launch->checked()) {
        for_each_vector(factors, own.cols, [&](const unsigned char* vector) {
            block.shared_checker.product_begins(block.shared_offset(vector), at);
        });
    }
    if (block.launch->counts) {
        const auto rows = static_cast<uint64_t>(8 * own.cols);
        block.counter.read_by_tensor_cores((WARP_ROWS + rows / WARPGROUP_WARPS) * WARPGROUP_K_BYTES);
        block.counter.multiplied(WARP_ROWS * rows * WARPGROUP_K);
    }
}

void warpgroup_wait(Block& block, Thread& thread, Warp& warp) {
    WarpProducts& own = block.products[thread.number / WARP_LANES];
    const auto left = static_cast<uint32_t>(operand_of(warp, 0).groups_left);
    size_t finished = 0;
    while (finished < own.pending.size() && own.pending[finished].group + left < own.group) {
        compute(block, thread, own, own.pending[finished]);
        finished += 1;
    }
    own.pending.erase(own.pending.begin(), own.pending.begin() + static_cast<ptrdiff_t>(finished));
    if (finished != 0 && !own.in_flight()) {
        give_back(block, thread, own, warp.arrivals[0].at);
    }
}

} // namespace emulator

extern "C" void emulator_fence_for_warpgroups() {
    emulator::Thread& thread = emulator::this_thread();
    emulator::Block& block = *thread.block;
    if (block.launch->checked()) {
        block.shared_checker.fence(thread);
    }
}
