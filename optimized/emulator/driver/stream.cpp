// Streams, events and graphs. Everything is done by the calling thread, at once.

#include "cuda.h"

namespace emulator {

namespace {

constexpr unsigned EVENT_WITHOUT_TIME = 2;
constexpr uintptr_t PER_THREAD_STREAM = 2;

} // namespace

Stream& stream_of(void* handle) {
    static Stream default_stream;
    const bool is_special = reinterpret_cast<uintptr_t>(handle) <= PER_THREAD_STREAM;
    return is_special ? default_stream : *static_cast<Stream*>(handle);
}

Result submit(void* stream, Operation operation) {
    Graph* const capture = stream_of(stream).capture.get();
    if (capture == nullptr) {
        return operation();
    }
    capture->operations.push_back(std::move(operation));
    return SUCCESS;
}

} // namespace emulator

using namespace emulator;

extern "C" {

Result cuStreamCreate(Stream** stream, unsigned) {
    *stream = new Stream();
    return SUCCESS;
}

Result cuStreamCreateWithPriority(Stream** stream, unsigned flags, int) {
    return cuStreamCreate(stream, flags);
}

Result cuStreamDestroy_v2(Stream* stream) {
    delete stream;
    return SUCCESS;
}

Result cuStreamSynchronize(void* stream) {
    return stream_of(stream).capture == nullptr ? SUCCESS : STREAM_CAPTURE_UNSUPPORTED;
}

Result cuStreamWaitEvent(void*, Event*, unsigned) {
    return SUCCESS;
}

Result cuLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
    return submit(stream, [=] {
        function(data);
        return SUCCESS;
    });
}

Result cuEventCreate(Event** event, unsigned flags) {
    *event = new Event{(flags & EVENT_WITHOUT_TIME) == 0, std::chrono::steady_clock::now()};
    return SUCCESS;
}

Result cuEventDestroy_v2(Event* event) {
    delete event;
    return SUCCESS;
}

Result cuEventRecord(Event* event, void* stream) {
    return submit(stream, [=] {
        event->time = std::chrono::steady_clock::now();
        return SUCCESS;
    });
}

Result cuEventSynchronize(Event*) {
    return SUCCESS;
}

Result cuEventQuery(Event*) {
    return SUCCESS;
}

Result cuEventElapsedTime_v2(float* milliseconds, Event* start, Event* end) {
    if (!start->has_time || !end->has_time) {
        return INVALID_HANDLE;
    }
    *milliseconds = std::chrono::duration<float, std::milli>(end->time - start->time).count();
    return SUCCESS;
}

Result cuStreamBeginCapture_v2(void* stream, int) {
    if (reinterpret_cast<uintptr_t>(stream) <= PER_THREAD_STREAM || stream_of(stream).capture != nullptr) {
        return STREAM_CAPTURE_UNSUPPORTED;
    }
    stream_of(stream).capture = std::make_unique<Graph>();
    return SUCCESS;
}

Result cuStreamEndCapture(void* stream, Graph** graph) {
    *graph = stream_of(stream).capture.release();
    return *graph == nullptr ? INVALID_VALUE : SUCCESS;
}

Result cuStreamIsCapturing(void* stream, int* status) {
    *status = stream_of(stream).capture == nullptr ? 0 : 1;
    return SUCCESS;
}

// An executable graph is a copy, because the graph itself may be destroyed first.
Result cuGraphInstantiateWithFlags(Graph** executable, Graph* graph, unsigned long long) {
    *executable = new Graph(*graph);
    return SUCCESS;
}

Result cuGraphUpload(Graph*, void*) {
    return SUCCESS;
}

Result cuGraphLaunch(Graph* executable, void* stream) {
    return submit(stream, [=] {
        for (const Operation& operation : executable->operations) {
            const Result result = operation();
            if (result != SUCCESS) {
                return result;
            }
        }
        return SUCCESS;
    });
}

Result cuGraphExecDestroy(Graph* executable) {
    delete executable;
    return SUCCESS;
}

Result cuGraphDestroy(Graph* graph) {
    delete graph;
    return SUCCESS;
}
}
