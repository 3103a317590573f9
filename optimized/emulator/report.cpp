#include "report.h"

#include <cstdarg>
#include <cstdio>

namespace emulator {

namespace {

constexpr size_t MAX_FINDINGS = 32;

} // namespace

const char* name_of(Fault fault) {
    switch (fault) {
    case Fault::SharedRace: return "race in shared memory";
    case Fault::GlobalRace: return "race in global memory";
    case Fault::UninitialisedShared: return "uninitialised shared memory";
    case Fault::UninitialisedGlobal: return "uninitialised global memory";
    case Fault::OutOfBounds: return "out of bounds";
    case Fault::UseAfterFree: return "use after free";
    case Fault::WildAccess: return "wild access";
    case Fault::Misaligned: return "misaligned access";
    case Fault::SharedTooSmall: return "too little shared memory";
    case Fault::DivergentBarrier: return "divergent barrier";
    case Fault::DivergentCollective: return "divergent collective";
    case Fault::WrongMask: return "wrong mask";
    case Fault::AbsentLane: return "absent lane";
    case Fault::CopyInFlight: return "copy in flight";
    case Fault::ProductInFlight: return "product in flight";
    case Fault::MissingFence: return "missing fence";
    case Fault::NotOnThisDevice: return "not on this device";
    case Fault::Deadlock: return "deadlock";
    case Fault::StackExhausted: return "no memory for stacks";
    }
    return "fault";
}

void Report::add(Fault fault, const std::string& where, const std::string& details) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Finding& finding : findings_) {
        if (finding.fault == fault && finding.where == where) {
            finding.times += 1;
            return;
        }
    }
    if (findings_.size() == MAX_FINDINGS) {
        left_out_ += 1;
        return;
    }
    findings_.push_back({fault, where, details, 1});
}

bool Report::empty() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return findings_.empty();
}

std::string Report::text() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::string text;
    for (const Finding& finding : findings_) {
        text += format("%s at %s: %s", name_of(finding.fault), finding.where.c_str(), finding.details.c_str());
        text += finding.times == 1 ? "\n" : format(" (%zu times)\n", finding.times);
    }
    if (left_out_ != 0) {
        text += format("and %zu more\n", left_out_);
    }
    return text;
}

std::string format(const char* text, ...) {
    char buffer[512];
    va_list arguments;
    va_start(arguments, text);
    vsnprintf(buffer, sizeof buffer, text, arguments);
    va_end(arguments);
    return buffer;
}

} // namespace emulator
