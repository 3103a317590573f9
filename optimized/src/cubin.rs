//! Kernels for GPUs, compiled once and kept in the user's cache folder.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::kernel::{Kernel, Sources};
use crate::nvrtc::{self, Nvrtc};

/// The kernel for GPUs of a compute capability: from the cache, or compiled and put there.
pub(crate) fn cached(kernel: &Kernel, sources: &Sources, capability: (i32, i32)) -> Result<Vec<u8>, Error> {
    let architecture = architecture(capability);
    let nvrtc = Nvrtc::find(None)?;
    let name = key(kernel, sources, &architecture, nvrtc.version());
    let file = folder().map(|folder| folder.join(format!("{name}.cubin")));
    if let Some(cubin) = file.as_ref().and_then(|file| fs::read(file).ok()) {
        return Ok(cubin);
    }
    let cubin = nvrtc.compile(kernel, sources, &architecture)?.cubin;
    if let Some(file) = file {
        keep(&file, &cubin)?;
    }
    Ok(cubin)
}

/// NVRTC's name of an architecture. Hopper's own instructions need its `a`.
fn architecture((major, minor): (i32, i32)) -> String {
    if (major, minor) == (9, 0) { "sm_90a".to_owned() } else { format!("sm_{major}{minor}") }
}

/// Where cubins are kept: `$XDG_CACHE_HOME/parity` or `~/.cache/parity`. Nowhere, if the user has no home.
fn folder() -> Option<PathBuf> {
    let in_home = || env::var_os("HOME").map(|home| Path::new(&home).join(".cache"));
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(in_home)?;
    Some(cache.join("parity"))
}

/// A name for all that determines a cubin: the compiler, its options and all that it reads.
fn key(kernel: &Kernel, sources: &Sources, architecture: &str, (major, minor): (i32, i32)) -> String {
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        hash.update(text.len().to_le_bytes());
        hash.update(text);
    };
    part(&format!("NVRTC {major}.{minor}"));
    for option in nvrtc::options(kernel, architecture) {
        part(&option);
    }
    part(kernel.op);
    for (name, text) in sources.files() {
        part(name);
        part(text);
    }
    hash.finalize().iter().fold(String::new(), |name, byte| format!("{name}{byte:02x}"))
}

/// Writes a file so that another process sees all of it or nothing.
fn keep(file: &Path, cubin: &[u8]) -> Result<(), Error> {
    let failed = |source| Error::File { path: file.to_owned(), source };
    let folder = file.parent().expect("cubins are kept in a folder");
    fs::create_dir_all(folder).map_err(failed)?;
    let unfinished = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
    fs::write(unfinished.path(), cubin).map_err(failed)?;
    unfinished.persist(file).map(|_| ()).map_err(|error| failed(error.error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::table::{ADD_RMS_NORM, RMS_NORM};

    #[test]
    fn a_key_changes_with_the_kernel_its_sources_the_architecture_and_the_compiler() {
        let sources = Sources::embedded();
        let edited = sources.clone().with("reduce.cuh", "");
        let keys = [
            key(&RMS_NORM, &sources, "sm_90a", (13, 0)),
            key(&ADD_RMS_NORM, &sources, "sm_90a", (13, 0)),
            key(&RMS_NORM, &edited, "sm_90a", (13, 0)),
            key(&RMS_NORM, &sources, "sm_80", (13, 0)),
            key(&RMS_NORM, &sources, "sm_90a", (13, 1)),
            key(&RMS_NORM, &sources, "sm_90a", (12, 0)),
        ];
        for (i, one) in keys.iter().enumerate() {
            assert!(keys[..i].iter().all(|other| other != one), "{keys:?}");
        }
        assert_eq!(key(&RMS_NORM, &sources, "sm_90a", (13, 0)), keys[0]);
    }

    #[test]
    fn what_is_kept_is_what_is_found() {
        let folder = tempfile::tempdir().expect("the system has a folder for temporary files");
        let file = folder.path().join("kernels/one.cubin");
        keep(&file, b"cubin").expect("the folder can be written");
        keep(&file, b"cubin again").expect("a file can be replaced");
        assert_eq!(fs::read(&file).expect("it was written"), b"cubin again");
        assert_eq!(fs::read_dir(folder.path().join("kernels")).expect("it was made").count(), 1);
    }

    #[test]
    fn hopper_is_compiled_for_its_own_instructions() {
        assert_eq!(architecture((9, 0)), "sm_90a");
        assert_eq!(architecture((8, 0)), "sm_80");
    }
}
