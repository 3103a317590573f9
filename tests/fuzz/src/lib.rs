//! Each reader of files, and each writer of reports, as a function of bytes, which a fuzzer makes up and the tests replay.
//!
//! A function returns whatever the bytes are: refused or read. It panics where a reader does, or where what was read
//! contradicts itself. `tests/fuzz/run` looks for such bytes; those that were found are in `tests/fuzz/corpus`, beside
//! whole files for the search to start from.

#[cfg(feature = "libfuzzer")]
mod limits;
mod models;
mod pictures;
mod reports;
mod tensors;
mod texts;

#[cfg(feature = "libfuzzer")]
pub use limits::bounded;
pub use models::{config, index};
pub use pictures::{image, preprocessor, video};
pub use reports::report;
pub use tensors::{npy, npz, safetensors, torch};
pub use texts::{manifest, names, tokens};

/// A reader as a function of bytes.
pub type Target = fn(&[u8]);

/// All of them by name, which is that of the program in `src/bin` and of the folder of seeds in `corpus`.
pub const TARGETS: [(&str, Target); 13] = [
    ("config", config),
    ("image", image),
    ("index", index),
    ("manifest", manifest),
    ("names", names),
    ("npy", npy),
    ("npz", npz),
    ("preprocessor", preprocessor),
    ("report", report),
    ("safetensors", safetensors),
    ("tokens", tokens),
    ("torch", torch),
    ("video", video),
];
