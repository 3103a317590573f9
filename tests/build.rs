//! Looks for a browser. Without one, the test that needs it is listed as ignored, with the reason.

use std::env;

/// What a Chromium is called.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(chromium)");
    for variable in ["PATH", "PARITY_CHROMIUM"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let named = env::var_os("PARITY_CHROMIUM").map(Into::into);
    let found = named.or_else(|| NAMES.iter().find_map(|name| which::which(name).ok()));
    if let Some(chromium) = found {
        println!("cargo::rustc-cfg=chromium");
        println!("cargo::rustc-env=CHROMIUM={}", chromium.display());
        println!("cargo::rerun-if-changed={}", chromium.display());
    } else {
        // One that is installed afterwards is seen.
        for folder in env::split_paths(&env::var_os("PATH").unwrap_or_default()) {
            println!("cargo::rerun-if-changed={}", folder.display());
        }
    }
}
