//! NVIDIA's compiler of kernels, which needs no GPU: one that is installed, or else what pip installs.

use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

use optimized::nvrtc::Nvrtc;

use crate::repository::path;

/// The version that is installed.
const PACKAGE: &str = "nvidia-cuda-nvrtc==13.0.88";

/// The compiler: in the folder that `PARITY_NVRTC` names, in the system's, or in `.cuda`, where it is put first if there is none.
///
/// # Panics
/// If it cannot be installed.
pub fn nvrtc() -> Nvrtc {
    static FOUND: OnceLock<Nvrtc> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let folder = path(".cuda/nvidia/cu13/lib");
        if env::var_os("PARITY_NVRTC").is_some() {
            return Nvrtc::find(None).unwrap_or_else(|error| panic!("{error}"));
        }
        if !folder.exists() {
            match Nvrtc::find(None) {
                Ok(nvrtc) => return nvrtc,
                Err(_) => install(),
            }
        }
        Nvrtc::find(Some(&folder)).unwrap_or_else(|error| panic!("{error}"))
    })
}

/// Puts the package into `.cuda`, as a whole.
fn install() {
    let (whole, partial) = (path(".cuda"), path(&format!(".cuda-{}", std::process::id())));
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", PACKAGE, "--target"]).arg(&partial);
    let done = pip.output().unwrap_or_else(|error| panic!("{}", lacking(&error.to_string())));
    assert!(done.status.success(), "{}", lacking(&String::from_utf8_lossy(&done.stderr)));
    // Another process may have been first.
    if fs::rename(&partial, &whole).is_err() {
        fs::remove_dir_all(&partial).expect("writable");
    }
}

fn lacking(why: &str) -> String {
    format!("pip does not install {PACKAGE}: {why}\nhelp: PARITY_NVRTC=FOLDER names that of libnvrtc.so.13")
}
