//! Looks for a browser. Without one, the test that needs it is listed as ignored, with the reason.

use std::env;
use std::path::PathBuf;

/// What a Chromium is called.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(chromium)");
    for variable in ["PATH", "PARITY_CHROMIUM"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let named = env::var_os("PARITY_CHROMIUM").map(Into::into);
    let found = named.or_else(|| NAMES.iter().find_map(|name| which::which(name).ok()));
    let path = found.as_ref().map_or_else(String::new, |found: &PathBuf| found.display().to_string());
    println!("cargo::rustc-env=CHROMIUM={path}");
    if found.is_some() {
        println!("cargo::rustc-cfg=chromium");
        println!("cargo::rerun-if-changed={path}");
    } else {
        // One that is installed afterwards is seen.
        for folder in env::split_paths(&env::var_os("PATH").unwrap_or_default()) {
            println!("cargo::rerun-if-changed={}", folder.display());
        }
    }
}
