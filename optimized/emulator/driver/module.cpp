// Modules, functions and launches.

#include <algorithm>
#include <cstring>

#include "cuda.h"

namespace emulator {

namespace {

constexpr int MAX_SHARED_ATTRIBUTE = 8;
constexpr int COMPUTE_CAPABILITY = 90;
constexpr int MAX_SHARED_BYTES_OF_BLOCK = 227 << 10;

// The values of a launch's arguments, which a graph keeps beyond the call.
class Arguments {
  public:
    Arguments(const uint32_t* parameters, void** arguments) {
        const uint32_t count = parameters[0];
        for (uint32_t i = 0; i < count; ++i) {
            const auto* begin = static_cast<const unsigned char*>(arguments[i]);
            values_.emplace_back(begin, begin + parameters[1 + i]);
        }
    }

    std::vector<void*> pointers() {
        std::vector<void*> pointers;
        for (std::vector<unsigned char>& value : values_) {
            pointers.push_back(value.data());
        }
        return pointers;
    }

  private:
    std::vector<std::vector<unsigned char>> values_;
};

bool is_possible(const LaunchShape& shape, const Function& function) {
    const Dim3& grid = shape.grid;
    const Dim3& block = shape.block;
    const bool has_threads = grid.x != 0 && grid.y != 0 && grid.z != 0 && shape.threads() != 0;
    const bool grid_fits = grid.x <= INT32_MAX && grid.y <= 65535 && grid.z <= 65535;
    const bool block_fits = block.x <= 1024 && block.y <= 1024 && block.z <= 64 && shape.threads() <= MAX_THREADS;
    return has_threads && grid_fits && block_fits &&
           shape.shared_bytes <= static_cast<uint32_t>(function.max_shared_bytes);
}

Result launch(const Function& function, const LaunchShape& shape, void** arguments) {
    ThreadState& state = thread_state();
    const Module& module = *function.module;
    Launch launch(*module.image, function.entry, arguments, shape, state.schedule, state.tensor_cores,
                  module.device->counts());
    if (launch.checked() || launch.counts) {
        launch.memory = module.device->memory.snapshot();
    }
    if (launch.counts) {
        for (const auto& allocation : launch.memory) {
            allocation->forget_touched();
        }
    }
    if (launch.checked()) {
        launch.stamps = Stamps::take(shape.blocks());
        if (launch.stamps.count == 0) {
            return LAUNCH_OUT_OF_RESOURCES;
        }
    }
    launch.run();
    state.last_launch = launch.statistics;
    state.counts.add(launch.counted);
    if (launch.report.empty()) {
        return SUCCESS;
    }
    state.report = launch.report.text();
    return LAUNCH_FAILED;
}

int resident_blocks(int threads, size_t shared_bytes) {
    const auto by_threads = THREADS_PER_MULTIPROCESSOR / std::max(threads, 1);
    const auto by_shared = static_cast<int>(SHARED_PER_MULTIPROCESSOR / (shared_bytes + SHARED_RESERVED_PER_BLOCK));
    return std::min({by_threads, by_shared, BLOCKS_PER_MULTIPROCESSOR});
}

} // namespace

} // namespace emulator

using namespace emulator;

extern "C" {

Result cuModuleLoadData(Module** module, const void* bytes) {
    Context* const context = current_context();
    if (context == nullptr) {
        return INVALID_CONTEXT;
    }
    std::string problem;
    std::unique_ptr<Image> image = Image::load(bytes, problem);
    if (image == nullptr) {
        thread_state().report = problem;
        return INVALID_IMAGE;
    }
    if (image->form() != context->device->form()) {
        return NO_BINARY_FOR_GPU;
    }
    *module = new Module{std::move(image), context->device, {}};
    return SUCCESS;
}

Result cuModuleUnload(Module* module) {
    delete module;
    return SUCCESS;
}

Result cuModuleGetFunction(Function** function, Module* module, const char* name) {
    const Entry entry = module->image->entry(name);
    const uint32_t* const parameters = module->image->parameters(name);
    if (entry == nullptr || parameters == nullptr) {
        return NOT_FOUND;
    }
    std::unique_ptr<Function>& kept = module->functions[name];
    if (kept == nullptr) {
        kept.reset(new Function{module, name, entry, parameters});
    }
    *function = kept.get();
    return SUCCESS;
}

Result cuFuncGetAttribute(int* value, int attribute, Function* function) {
    switch (attribute) {
    case 0: *value = static_cast<int>(MAX_THREADS); break;
    case 5: // PTX version
    case 6: *value = COMPUTE_CAPABILITY; break;
    case MAX_SHARED_ATTRIBUTE: *value = function->max_shared_bytes; break;
    default: *value = 0; break;
    }
    return SUCCESS;
}

Result cuFuncSetAttribute(Function* function, int attribute, int value) {
    if (attribute != MAX_SHARED_ATTRIBUTE) {
        return SUCCESS;
    }
    if (value < 0 || value > MAX_SHARED_BYTES_OF_BLOCK) {
        return INVALID_VALUE;
    }
    function->max_shared_bytes = value;
    return SUCCESS;
}

Result cuFuncSetCacheConfig(Function*, int) {
    return SUCCESS;
}

Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function*, int threads, size_t shared_bytes) {
    *blocks = resident_blocks(threads, shared_bytes);
    return SUCCESS;
}

Result cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, Function*, int threads, size_t shared_bytes,
                                                            unsigned) {
    *blocks = resident_blocks(threads, shared_bytes);
    return SUCCESS;
}

Result cuLaunchKernel(Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                      unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** arguments,
                      void**) {
    const LaunchShape shape = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
    if (!is_possible(shape, *function)) {
        return INVALID_VALUE;
    }
    if (stream_of(stream).capture == nullptr) {
        return launch(*function, shape, arguments);
    }
    Arguments kept(function->parameters, arguments);
    return submit(stream, [=]() mutable {
        std::vector<void*> pointers = kept.pointers();
        return launch(*function, shape, pointers.data());
    });
}

// All blocks must be resident at once. They run one after another all the same: kernels have no way to wait for other
// blocks.
Result cuLaunchCooperativeKernel(Function* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                 unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                                 void* stream, void** arguments) {
    const LaunchShape shape = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
    const int resident = resident_blocks(static_cast<int>(shape.threads()), shared_bytes) * MULTIPROCESSORS;
    if (shape.blocks() > static_cast<uint64_t>(resident)) {
        return LAUNCH_OUT_OF_RESOURCES;
    }
    return cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, arguments,
                          nullptr);
}
}
