// From an address in a kernel image to the line of the kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emulator {

// A view of the table that the build puts beside every kernel image. A place is a line together with the lines that it
// was inlined into; the same place has the same number.
class LineTable {
  public:
    static constexpr uint32_t NOWHERE = 0;

    LineTable() = default;
    // Null or too short tables are empty.
    LineTable(const unsigned char* bytes, size_t size);

    uint32_t place_of(uint32_t address) const;
    // `reduce.cuh:31 in rms_norm.cu:24`.
    std::string describe(uint32_t place) const;

  private:
    struct Row {
        uint32_t address;
        uint32_t place;
    };
    struct Place {
        uint32_t file;
        uint32_t line;
        uint32_t caller;
    };

    const Row* rows_ = nullptr;
    const Place* places_ = nullptr;
    const uint32_t* files_ = nullptr;
    const char* names_ = nullptr;
    uint32_t row_count_ = 0;
};

} // namespace emulator
