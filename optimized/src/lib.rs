//! The CUDA path: kernels, the host code that mirrors the reference, the emulated device.
