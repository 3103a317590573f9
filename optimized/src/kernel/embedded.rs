//! What the build script made: the emulated driver, the kernels' sources, and their images.

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
