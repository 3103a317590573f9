// Atomic operations on integers. They are real ones, because blocks of a launch run on several cores.

#include "block.h"

namespace emulator {

namespace {

template <class T>
T changed(Atomic operation, T old, T value, T expected) {
    switch (operation) {
    case Atomic::Add: return old + value;
    case Atomic::Min: return old < value ? old : value;
    case Atomic::Max: return old < value ? value : old;
    case Atomic::And: return old & value;
    case Atomic::Or: return old | value;
    case Atomic::Xor: return old ^ value;
    case Atomic::Exchange: return value;
    case Atomic::CompareExchange: return old == expected ? value : old;
    }
    return old;
}

template <class T>
uint64_t change(Atomic operation, void* address, uint64_t value, uint64_t expected) {
    T* const target = static_cast<T*>(address);
    T old = __atomic_load_n(target, __ATOMIC_RELAXED);
    T next = changed(operation, old, static_cast<T>(value), static_cast<T>(expected));
    while (!__atomic_compare_exchange_n(target, &old, next, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
        next = changed(operation, old, static_cast<T>(value), static_cast<T>(expected));
    }
    return static_cast<uint64_t>(old);
}

} // namespace

} // namespace emulator

extern "C" {

uint64_t emulator_atomic(emulator::Atomic operation, void* address, int bytes, bool is_signed, uint64_t value,
                         uint64_t expected) {
    using namespace emulator;
    Thread& thread = this_thread();
    Block& block = *thread.block;
    const void* const at = __builtin_return_address(0);
    if (reinterpret_cast<uintptr_t>(address) % static_cast<uintptr_t>(bytes) != 0) {
        block.stop(thread, Fault::Misaligned, at,
                   block.name(thread.number) + format(" changes %d bytes at %p atomically", bytes, address));
    }
    if (block.launch->counts) {
        block.counter.read(thread, address, static_cast<uint32_t>(bytes), at);
        block.counter.write(thread, address, static_cast<uint32_t>(bytes), at);
    }
    if (block.launch->checked()) {
        const auto size = static_cast<uint32_t>(bytes);
        if (block.in_shared(address, size)) {
            block.shared_checker.atomic(thread, block.shared_offset(address), size, at);
        } else {
            block.global_checker.atomic(thread, address, size, at);
        }
    }
    if (bytes == 4) {
        return is_signed ? change<int32_t>(operation, address, value, expected)
                         : change<uint32_t>(operation, address, value, expected);
    }
    return is_signed ? change<int64_t>(operation, address, value, expected)
                     : change<uint64_t>(operation, address, value, expected);
}

void emulator_fence() {
    emulator::Thread& thread = emulator::this_thread();
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (thread.block->launch->checked()) {
        thread.block->global_checker.fence();
    }
}
}
