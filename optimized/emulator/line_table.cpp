#include "line_table.h"

#include <algorithm>

#include "report.h"

namespace emulator {

namespace {

struct Header {
    uint32_t rows;
    uint32_t places;
    uint32_t files;
    uint32_t name_bytes;
};

} // namespace

LineTable::LineTable(const unsigned char* bytes, size_t size) {
    if (bytes == nullptr || size < sizeof(Header)) {
        return;
    }
    const auto* header = reinterpret_cast<const Header*>(bytes);
    const size_t needed = sizeof(Header) + header->rows * sizeof(Row) + header->places * sizeof(Place) +
                          header->files * sizeof(uint32_t) + header->name_bytes;
    if (size < needed) {
        return;
    }
    rows_ = reinterpret_cast<const Row*>(header + 1);
    places_ = reinterpret_cast<const Place*>(rows_ + header->rows);
    files_ = reinterpret_cast<const uint32_t*>(places_ + header->places);
    names_ = reinterpret_cast<const char*>(files_ + header->files);
    row_count_ = header->rows;
}

uint32_t LineTable::place_of(uint32_t address) const {
    const auto starts_after = [](uint32_t wanted, const Row& row) { return wanted < row.address; };
    const Row* after = std::upper_bound(rows_, rows_ + row_count_, address, starts_after);
    return after == rows_ ? NOWHERE : after[-1].place;
}

std::string LineTable::describe(uint32_t place) const {
    if (place == NOWHERE) {
        return "an unknown line";
    }
    std::string text;
    while (place != NOWHERE) {
        const Place& at = places_[place - 1];
        text += format("%s%s:%u", text.empty() ? "" : " in ", names_ + files_[at.file], at.line);
        place = at.caller;
    }
    return text;
}

} // namespace emulator
