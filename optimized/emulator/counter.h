// Counts what a block's accesses ask of global and shared memory. Counting form only.
//
// The lanes of a warp run one after another, so accesses are put together by their code and their turn: the k-th time
// that a lane comes to an instruction belongs to the k-th time of the other lanes. Where lanes diverge, those that come
// never are missing from the request, and it is counted when the block ends.
//
// A request of global memory takes a sector for each 32 bytes that its lanes name. One of shared memory takes a
// wavefront for up to 128 bytes; lanes are served in groups, of 32 for up to 4 bytes each, of 16 for 8, of 8 for 16; a
// group takes as many wavefronts as the busiest of 32 banks has different words to give.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "counts.h"
#include "interface.h"
#include "memory.h"

namespace emulator {

struct Block;

class Counter {
  public:
    void begin(Block& block);
    // Counts the requests that lanes are missing from.
    void end();

    void read(const Thread& thread, const void* address, uint32_t bytes, const void* at);
    void write(const Thread& thread, const void* address, uint32_t bytes, const void* at);
    // Four matrices of ldmatrix: the addresses of 32 rows of 16 bytes.
    void load_matrix(const unsigned char* const* rows);
    // Factors that tensor cores read themselves, without conflicts.
    void read_by_tensor_cores(uint64_t bytes);
    void multiplied(uint64_t multiply_adds) { counts_.multiply_adds += multiply_adds; }

    // What was counted since the last call.
    Counts take();

  private:
    enum class Kind : uint32_t { GlobalRead, GlobalWrite, Shared };

    // A warp's instruction.
    struct Request {
        uint32_t lanes;
        const unsigned char* addresses[WARP_LANES];
    };

    // A warp's instructions at one place that lanes are yet to come to; the first of them was its `turn`-th.
    struct Waiting {
        uint32_t turn = 0;
        size_t first = 0;
        std::vector<Request> requests;
    };

    // A place in the code.
    struct Site {
        Kind kind;
        uint32_t bytes;
        std::vector<uint32_t> turns; // of each thread
        std::vector<Waiting> warps;
    };

    void access(const Thread& thread, const unsigned char* address, uint32_t bytes, bool writes, uintptr_t at);
    void arrive(const Thread& thread, const unsigned char* address, uint32_t bytes, Kind kind, uintptr_t at);
    Site& site_of(Kind kind, uint32_t bytes, uintptr_t at);
    void count(const Site& site, const Request& request);
    void count_sectors(Traffic& traffic, const Site& site, const Request& request);
    void count_wavefronts(const unsigned char* const* addresses, uint32_t lanes, uint32_t bytes);
    Allocation* allocation_of(const unsigned char* address);

    Block* block_ = nullptr;
    Allocation* last_ = nullptr;
    Counts counts_;
    std::unordered_map<uintptr_t, Site> sites_;
    Site* last_site_ = nullptr;
    uintptr_t last_key_ = 0;
};

} // namespace emulator
