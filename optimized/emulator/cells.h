// Where the histories of bytes are kept. Checked form only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace emulator {

// Numbers the cells that hold histories: one for each byte, and behind them one for each line of 16. A line whose bytes
// have one history keeps it in its own cell, because most accesses are of whole lines.
class Cells {
  public:
    static constexpr size_t LINE_BYTES = 16;

    Cells() = default;
    explicit Cells(size_t bytes) : bytes_((bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES), whole_(lines(), 1) {}

    size_t bytes() const { return bytes_; }
    // How many cells there are.
    size_t count() const { return bytes_ + lines(); }
    size_t first_byte(size_t cell) const { return cell < bytes_ ? cell : (cell - bytes_) * LINE_BYTES; }
    // The cell that has the byte's history.
    size_t of_byte(size_t byte) const {
        const size_t line = byte / LINE_BYTES;
        return whole_[line] != 0 ? bytes_ + line : byte;
    }

    // Calls `act` with each cell of the bytes. `copy(from, to)` copies a history. `overwrites` if `act` leaves them all
    // with one history.
    template <class Copy, class Act>
    void visit(size_t offset, size_t size, bool overwrites, Copy copy, Act act);

  private:
    size_t lines() const { return bytes_ / LINE_BYTES; }

    size_t bytes_ = 0;
    std::vector<unsigned char> whole_; // for each line
};

template <class Copy, class Act>
void Cells::visit(size_t offset, size_t size, bool overwrites, Copy copy, Act act) {
    const size_t end = offset + size;
    for (size_t byte = offset; byte < end;) {
        const size_t line = byte / LINE_BYTES;
        const size_t of_line = bytes_ + line;
        const size_t end_here = std::min(end, (line + 1) * LINE_BYTES);
        const bool is_whole_line = end_here - byte == LINE_BYTES;
        if (is_whole_line && whole_[line] != 0) {
            act(of_line);
            byte = end_here;
            continue;
        }
        if (whole_[line] != 0) {
            for (size_t i = line * LINE_BYTES; i < (line + 1) * LINE_BYTES; ++i) {
                copy(of_line, i);
            }
            whole_[line] = 0;
        }
        for (; byte < end_here; ++byte) {
            act(byte);
        }
        if (is_whole_line && overwrites) {
            copy(byte - 1, of_line);
            whole_[line] = 1;
        }
    }
}

} // namespace emulator
