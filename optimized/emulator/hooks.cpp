// What the kernels of the checked and the counting form call before every load and store.
//
// The compiler's thread sanitizer inserts the calls; the functions that it expects are ours, and its own library is not
// linked.

#include "block.h"

namespace emulator {

namespace {

enum class Access { Read, Write };

// Ends the block at an access to memory that no kernel may touch.
void stop_at(Block& block, Thread& thread, Fault fault, const void* address, uint32_t bytes, const char* what,
             const void* at) {
    block.stop(thread, fault, at,
               block.name(thread.number) + format(" accesses %u bytes at %p: ", bytes, address) + what);
}

inline void check(const void* address, uint32_t bytes, uint32_t alignment, Access access, const void* at) {
    const auto value = reinterpret_cast<uintptr_t>(address);
    const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
    if ((value ^ here) < STACK_BYTES) {
        return; // the thread's own variables
    }
    Thread& thread = this_thread();
    Block& block = *thread.block;
    if (block.launch->counts) {
        if (access == Access::Read) {
            block.counter.read(thread, address, bytes, at);
        } else {
            block.counter.write(thread, address, bytes, at);
        }
        return;
    }
    if (block.region.contains(address)) {
        const bool is_record = value - reinterpret_cast<uintptr_t>(&block.region.thread(0)) < RECORD_BYTES;
        if (!is_record) {
            stop_at(block, thread, Fault::WildAccess, address, bytes, "local variables of another thread", at);
        }
        return;
    }
    if (value % alignment != 0) {
        stop_at(block, thread, Fault::Misaligned, address, bytes, "the address is no multiple of the size", at);
    }
    if (block.in_shared(address, bytes)) {
        if (access == Access::Read) {
            block.shared_checker.read(thread, block.shared_offset(address), bytes, at);
        } else {
            block.shared_checker.write(thread, block.shared_offset(address), bytes, at);
        }
        return;
    }
    const uintptr_t into_shared = value - reinterpret_cast<uintptr_t>(block.shared);
    if (into_shared < MAX_SHARED_BYTES) {
        block.stop(thread, Fault::OutOfBounds, at,
                   block.name(thread.number) + format(" accesses %u bytes at offset %zu of %u bytes of shared memory",
                                                      bytes, static_cast<size_t>(into_shared), thread.shared_bytes));
    }
    if (block.launch->image.contains(address)) {
        return; // constants of the kernel
    }
    if (access == Access::Read) {
        block.global_checker.read(thread, address, bytes, at);
    } else {
        block.global_checker.write(thread, address, bytes, at);
    }
}

} // namespace

} // namespace emulator

#define READ(name, bytes, alignment)                                                                                   \
    void name(const void* address) {                                                                                   \
        emulator::check(address, bytes, alignment, emulator::Access::Read, __builtin_return_address(0));               \
    }
#define WRITE(name, bytes, alignment)                                                                                  \
    void name(const void* address) {                                                                                   \
        emulator::check(address, bytes, alignment, emulator::Access::Write, __builtin_return_address(0));              \
    }
#define HOOKS_OF_SIZE(bytes)                                                                                           \
    READ(__tsan_read##bytes, bytes, bytes)                                                                             \
    WRITE(__tsan_write##bytes, bytes, bytes)                                                                           \
    READ(__tsan_volatile_read##bytes, bytes, bytes)                                                                    \
    WRITE(__tsan_volatile_write##bytes, bytes, bytes)                                                                  \
    READ(__tsan_unaligned_read##bytes, bytes, 1)                                                                       \
    WRITE(__tsan_unaligned_write##bytes, bytes, 1)                                                                     \
    READ(__tsan_unaligned_volatile_read##bytes, bytes, 1)                                                              \
    WRITE(__tsan_unaligned_volatile_write##bytes, bytes, 1)

extern "C" {

HOOKS_OF_SIZE(1)
HOOKS_OF_SIZE(2)
HOOKS_OF_SIZE(4)
HOOKS_OF_SIZE(8)
HOOKS_OF_SIZE(16)

void __tsan_read_range(const void* address, size_t bytes) {
    const void* const at = __builtin_return_address(0);
    emulator::check(address, static_cast<uint32_t>(bytes), 1, emulator::Access::Read, at);
}

void __tsan_write_range(const void* address, size_t bytes) {
    const void* const at = __builtin_return_address(0);
    emulator::check(address, static_cast<uint32_t>(bytes), 1, emulator::Access::Write, at);
}

void __tsan_init() {}
void __tsan_func_entry(const void*) {}
void __tsan_func_exit() {}
}
