//! The emulated device.
