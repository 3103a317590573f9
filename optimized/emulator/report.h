// What went wrong in a launch, in words: one line a finding.
#pragma once

#include <mutex>
#include <string>
#include <vector>

namespace emulator {

enum class Fault {
    SharedRace,
    GlobalRace,
    UninitialisedShared,
    UninitialisedGlobal,
    OutOfBounds,
    UseAfterFree,
    WildAccess,
    Misaligned,
    SharedTooSmall,
    DivergentBarrier,
    DivergentCollective,
    WrongMask,
    AbsentLane,
    CopyInFlight,
    ProductInFlight,
    MissingFence,
    NotOnThisDevice,
    Deadlock,
    StackExhausted,
};

// The name that a finding's line begins with.
const char* name_of(Fault fault);

// The findings of a launch. A finding of the same kind at the same place is kept once and counted.
class Report {
  public:
    void add(Fault fault, const std::string& where, const std::string& details);
    bool empty() const;
    // One line a finding: `kind at place: details`.
    std::string text() const;

  private:
    struct Finding {
        Fault fault;
        std::string where;
        std::string details;
        size_t times;
    };

    mutable std::mutex mutex_;
    std::vector<Finding> findings_;
    size_t left_out_ = 0;
};

// A string made as by printf.
std::string format(const char* text, ...) __attribute__((format(printf, 1, 2)));

} // namespace emulator
