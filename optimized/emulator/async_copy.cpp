// cp.async: copies from global to shared memory that are complete only when they were waited for.

#include <cstring>

#include "block.h"

namespace emulator {

namespace {

constexpr uint32_t COPY_BYTES = 16;

} // namespace

void Block::copy_async(Thread& thread, const AsyncCopy& copy) {
    const auto target = reinterpret_cast<uintptr_t>(copy.shared);
    const uintptr_t source = copy.bytes == 0 ? 0 : reinterpret_cast<uintptr_t>(copy.global);
    if (target % COPY_BYTES != 0 || source % COPY_BYTES != 0) {
        stop(thread, Fault::Misaligned, copy.at,
             name(thread.number) + format(" copies asynchronously from %#zx to %#zx; both must be multiples of %u",
                                          source, target, COPY_BYTES));
    }
    if (!in_shared(copy.shared, COPY_BYTES)) {
        stop(thread, Fault::OutOfBounds, copy.at,
             name(thread.number) + " copies asynchronously to memory that is not the block's shared memory");
    }
    if (launch->checked()) {
        if (copy.bytes != 0) {
            global_checker.read(thread, copy.global, static_cast<uint32_t>(copy.bytes), copy.at);
        }
        shared_checker.copy_begins(thread, shared_offset(copy.shared), COPY_BYTES, copy.at);
    }
    if (launch->counts) {
        if (copy.bytes != 0) {
            counter.read(thread, copy.global, static_cast<uint32_t>(copy.bytes), copy.at);
        }
        counter.write(thread, copy.shared, COPY_BYTES, copy.at);
    }
    if (!launch->checked() && scheduler.copies_at_once()) {
        finish_copy(thread, copy);
        return;
    }
    copies[thread.number].pending.push_back(copy);
}

void Block::copy_wait(Thread& thread, uint32_t groups_left) {
    AsyncCopies& own = copies[thread.number];
    size_t finished = 0;
    while (finished < own.pending.size() && own.pending[finished].group + groups_left < own.group) {
        finish_copy(thread, own.pending[finished]);
        finished += 1;
    }
    own.pending.erase(own.pending.begin(), own.pending.begin() + static_cast<ptrdiff_t>(finished));
}

void Block::finish_copy(Thread& thread, const AsyncCopy& copy) {
    if (launch->checked()) {
        shared_checker.copy_ends(thread, shared_offset(copy.shared), COPY_BYTES, copy.at);
    }
    const auto bytes = static_cast<size_t>(copy.bytes);
    memcpy(copy.shared, copy.global, bytes);
    memset(copy.shared + bytes, 0, COPY_BYTES - bytes);
}

} // namespace emulator

extern "C" {

void emulator_copy_async(void* shared, const void* global, int bytes) {
    emulator::Thread& thread = emulator::this_thread();
    emulator::Block& block = *thread.block;
    block.copy_async(thread, {static_cast<unsigned char*>(shared), static_cast<const unsigned char*>(global), bytes,
                              block.copies[thread.number].group, __builtin_return_address(0)});
}

void emulator_copy_commit() {
    emulator::Thread& thread = emulator::this_thread();
    thread.block->copy_commit(thread);
}

void emulator_copy_wait(int groups_left) {
    emulator::Thread& thread = emulator::this_thread();
    thread.block->copy_wait(thread, static_cast<uint32_t>(groups_left));
}
}
