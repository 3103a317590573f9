// Stacks of emulated threads, and going from one to another.
#pragma once

#include "interface.h"

namespace emulator {

// Keeps where the running code stands in `*from`, and goes on at `to`.
extern "C" void emulator_switch(void** from, void* to);

// The records and stacks of one block's threads. Under every stack lies a page that may not be touched.
class Region {
  public:
    Region();
    ~Region();
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    bool mapped() const { return base_ != nullptr; }
    Thread& thread(uint32_t number) const { return reinterpret_cast<Thread*>(base_)[number]; }
    bool contains(const void* address) const;
    // Makes room for `threads` threads; false if there is no memory.
    bool reserve(uint32_t threads);
    // Lets `thread` begin with `entry`, on an empty stack. `entry` never returns.
    void prepare(Thread& thread, void (*entry)());

  private:
    unsigned char* base_ = nullptr;
    uint32_t reserved_ = 0;
};

} // namespace emulator
