#include "image.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "report.h"

namespace emulator {

namespace {

// Before the shared object, which is followed by the line table. Written by `optimized/src/emulated/image.rs`.
struct Header {
    char magic[8];
    uint32_t form;
    uint32_t object_bytes;
    uint32_t table_bytes;
    uint32_t reserved;
};

constexpr char MAGIC[8] = {'P', 'A', 'R', 'I', 'T', 'Y', 'E', 'M'};

// A file in memory with these bytes, or -1.
int file_in_memory(const unsigned char* bytes, size_t size) {
    const int file = memfd_create("kernel image", MFD_CLOEXEC);
    while (file >= 0 && size != 0) {
        const ssize_t written = write(file, bytes, size);
        if (written <= 0) {
            close(file);
            return -1;
        }
        bytes += written;
        size -= static_cast<size_t>(written);
    }
    return file;
}

// How far the loaded object reaches beyond its base.
uintptr_t extent(const unsigned char* object) {
    ElfW(Ehdr) header;
    memcpy(&header, object, sizeof header);
    uintptr_t end = 0;
    for (int i = 0; i < header.e_phnum; ++i) {
        ElfW(Phdr) segment;
        memcpy(&segment, object + header.e_phoff + i * sizeof segment, sizeof segment);
        if (segment.p_type == PT_LOAD) {
            end = std::max<uintptr_t>(end, segment.p_vaddr + segment.p_memsz);
        }
    }
    return end;
}

} // namespace

std::unique_ptr<Image> Image::load(const void* bytes, std::string& problem) {
    Header header;
    memcpy(&header, bytes, sizeof header);
    if (memcmp(header.magic, MAGIC, sizeof MAGIC) != 0) {
        problem = "not an image of the emulated device";
        return nullptr;
    }
    const auto* object = static_cast<const unsigned char*>(bytes) + sizeof header;
    std::unique_ptr<Image> image(new Image());
    image->form_ = header.form == 0 ? Form::Fast : Form::Checked;
    image->table_ = std::make_unique<unsigned char[]>(header.table_bytes);
    memcpy(image->table_.get(), object + header.object_bytes, header.table_bytes);
    image->lines_ = LineTable(image->table_.get(), header.table_bytes);
    image->bytes_ = extent(object);
    // The file stays open as long as the object is loaded: the dynamic linker tells objects apart by their paths.
    image->file_ = file_in_memory(object, header.object_bytes);
    image->handle_ = dlopen(format("/proc/self/fd/%d", image->file_).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (image->handle_ == nullptr) {
        problem = dlerror();
        return nullptr;
    }
    link_map* map = nullptr;
    dlinfo(image->handle_, RTLD_DI_LINKMAP, &map);
    image->base_ = map->l_addr;
    return image;
}

Image::~Image() {
    if (handle_ != nullptr) {
        dlclose(handle_);
    }
    if (file_ >= 0) {
        close(file_);
    }
}

uint32_t Image::offset_of(const void* pc) const {
    return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(pc) - base_);
}

bool Image::contains(const void* address) const {
    return reinterpret_cast<uintptr_t>(address) - base_ < bytes_;
}

void* Image::symbol(const std::string& name) const {
    return dlsym(handle_, name.c_str());
}

Entry Image::entry(const std::string& kernel) const {
    return reinterpret_cast<Entry>(symbol(kernel + "_entry"));
}

const uint32_t* Image::parameters(const std::string& kernel) const {
    return static_cast<const uint32_t*>(symbol(kernel + "_parameters"));
}

} // namespace emulator
