// Kernel images: what a cubin is to a GPU.
#pragma once

#include <memory>
#include <string>

#include "line_table.h"

namespace emulator {

enum class Form : uint32_t { Fast, Checked };

// Calls a kernel with the arguments that cuLaunchKernel takes.
using Entry = void (*)(void** arguments);

// A loaded kernel image: a shared object, its line table, and the form that it was compiled in.
class Image {
  public:
    // Null if the bytes are no image, with the reason in `problem`.
    static std::unique_ptr<Image> load(const void* bytes, std::string& problem);
    ~Image();
    Image(const Image&) = delete;
    Image& operator=(const Image&) = delete;

    Form form() const { return form_; }
    const LineTable& lines() const { return lines_; }
    // The address of `pc` in the image, as the line table counts.
    uint32_t offset_of(const void* pc) const;
    // The place of the call that returns to `pc`.
    uint32_t place_of(const void* pc) const { return lines_.place_of(offset_of(pc) - 1); }
    bool contains(const void* address) const;
    // Null if the image has no kernel of that name.
    Entry entry(const std::string& kernel) const;
    // {count, bytes of the first, bytes of the second, …}, null if there is no such kernel.
    const uint32_t* parameters(const std::string& kernel) const;

  private:
    Image() = default;
    void* symbol(const std::string& name) const;

    std::unique_ptr<unsigned char[]> table_;
    LineTable lines_;
    Form form_ = Form::Fast;
    int file_ = -1;
    void* handle_ = nullptr;
    uintptr_t base_ = 0;
    uintptr_t bytes_ = 0;
};

} // namespace emulator
