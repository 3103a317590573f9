// Entry points that cudarc's safe interface can reach and the emulated device does not offer.

#include "cuda.h"

#define UNSUPPORTED(name)                                                                                              \
    emulator::Result name() {                                                                                          \
        return emulator::NOT_SUPPORTED;                                                                                \
    }

extern "C" {

UNSUPPORTED(cuCtxGetCacheConfig)
UNSUPPORTED(cuCtxGetLimit)
UNSUPPORTED(cuCtxSetCacheConfig)
UNSUPPORTED(cuCtxSetLimit)
UNSUPPORTED(cuDestroyExternalMemory)
UNSUPPORTED(cuDeviceGetDefaultMemPool)
UNSUPPORTED(cuDeviceGetMemPool)
UNSUPPORTED(cuDeviceSetMemPool)
UNSUPPORTED(cuExternalMemoryGetMappedBuffer)
UNSUPPORTED(cuImportExternalMemory)
UNSUPPORTED(cuMemAdvise_v2)
UNSUPPORTED(cuMemAllocFromPoolAsync)
UNSUPPORTED(cuMemAllocManaged)
UNSUPPORTED(cuMemPoolCreate)
UNSUPPORTED(cuMemPoolDestroy)
UNSUPPORTED(cuMemPoolGetAttribute)
UNSUPPORTED(cuMemPoolSetAttribute)
UNSUPPORTED(cuMemPoolTrimTo)
UNSUPPORTED(cuMemPrefetchAsync_v2)
UNSUPPORTED(cuModuleGetGlobal_v2)
UNSUPPORTED(cuModuleLoad)
UNSUPPORTED(cuOccupancyAvailableDynamicSMemPerBlock)
UNSUPPORTED(cuOccupancyMaxActiveClusters)
UNSUPPORTED(cuOccupancyMaxPotentialBlockSize)
UNSUPPORTED(cuOccupancyMaxPotentialBlockSizeWithFlags)
UNSUPPORTED(cuOccupancyMaxPotentialClusterSize)
UNSUPPORTED(cuProfilerStart)
UNSUPPORTED(cuProfilerStop)
UNSUPPORTED(cuStreamAttachMemAsync)
}
