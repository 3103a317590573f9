#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emulator {

namespace {

// Stacks that all began at the same offset in a page would fall into the same sets of the first-level cache.
uintptr_t stagger(uint32_t number) {
    return 64 + number % 16 * 256 + number / 16 % 4 * 64;
}

uintptr_t stack_bottom(const unsigned char* base, uint32_t number) {
    return reinterpret_cast<uintptr_t>(base) + RECORD_BYTES + number * STACK_BYTES;
}

} // namespace

Region::Region() {
    // Twice the size, so that an aligned region lies inside; the rest is given back.
    void* const mapping =
        mmap(nullptr, 2 * REGION_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) {
        return;
    }
    const auto begin = reinterpret_cast<uintptr_t>(mapping);
    const uintptr_t aligned = (begin + REGION_BYTES - 1) & ~(REGION_BYTES - 1);
    if (aligned != begin) {
        munmap(mapping, aligned - begin);
    }
    munmap(reinterpret_cast<void*>(aligned + REGION_BYTES), begin + REGION_BYTES - aligned);
    base_ = reinterpret_cast<unsigned char*>(aligned);
    if (mprotect(base_, RECORD_BYTES, PROT_READ | PROT_WRITE) != 0) {
        munmap(base_, REGION_BYTES);
        base_ = nullptr;
    }
}

Region::~Region() {
    if (base_ != nullptr) {
        munmap(base_, REGION_BYTES);
    }
}

bool Region::contains(const void* address) const {
    return reinterpret_cast<uintptr_t>(address) - reinterpret_cast<uintptr_t>(base_) < REGION_BYTES;
}

bool Region::reserve(uint32_t threads) {
    const auto guard = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    while (reserved_ < threads) {
        void* const stack = reinterpret_cast<void*>(stack_bottom(base_, reserved_) + guard);
        if (mprotect(stack, STACK_BYTES - guard, PROT_READ | PROT_WRITE) != 0) {
            return false;
        }
        reserved_ += 1;
    }
    return true;
}

#if defined(__x86_64__)

// The callee-saved registers and a return address are all that a switch has to keep: to the compiler it is a call.
asm(R"(
.text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch, @function
emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulator_switch, . - emulator_switch
)");

void Region::prepare(Thread& thread, void (*entry)()) {
    constexpr int SAVED_REGISTERS = 6;
    const uintptr_t top = stack_bottom(base_, thread.number) + STACK_BYTES - stagger(thread.number);
    auto* stack = reinterpret_cast<void**>(top);
    *--stack = nullptr; // stands where `entry`'s return address would, and aligns the stack as a call does
    *--stack = reinterpret_cast<void*>(entry);
    for (int i = 0; i < SAVED_REGISTERS; ++i) {
        *--stack = nullptr;
    }
    thread.stack_pointer = stack;
}

#else

extern "C" void emulator_switch(void** from, void* to) {
    ucontext_t here;
    *from = &here;
    swapcontext(&here, static_cast<ucontext_t*>(to));
}

void Region::prepare(Thread& thread, void (*entry)()) {
    const uintptr_t bottom = stack_bottom(base_, thread.number);
    const uintptr_t top = bottom + STACK_BYTES - stagger(thread.number);
    auto* const context = reinterpret_cast<ucontext_t*>((top - sizeof(ucontext_t)) & ~uintptr_t{63});
    getcontext(context);
    context->uc_stack.ss_sp = reinterpret_cast<void*>(bottom);
    context->uc_stack.ss_size = reinterpret_cast<uintptr_t>(context) - bottom;
    context->uc_link = nullptr;
    makecontext(context, entry, 0);
    thread.stack_pointer = context;
}

#endif

} // namespace emulator
