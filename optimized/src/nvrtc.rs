//! Compiling kernels for GPUs with NVRTC, which needs no GPU.

use std::env;
use std::ffi::{CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::ptr;

use cudarc::nvrtc::sys::{self, nvrtcProgram, nvrtcResult};

use crate::error::Error;
use crate::kernel::{Kernel, Sources};

/// NVRTC, found and loaded.
#[derive(Debug, Clone, Copy)]
pub struct Nvrtc {
    version: (i32, i32),
}

/// A kernel compiled for a GPU.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// What the GPU runs.
    pub cubin: Vec<u8>,
    /// What each entry needs.
    pub resources: Vec<Resources>,
    /// All that the compiler said.
    pub log: String,
}

/// What an entry of a kernel needs of a multiprocessor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Resources {
    /// The entry.
    pub entry: String,
    /// Registers of each thread.
    pub registers: usize,
    /// Bytes that each thread spills to memory, stored and loaded.
    pub spilled_bytes: usize,
    /// Bytes of each thread's stack.
    pub stack_bytes: usize,
    /// Static shared memory of a block, in bytes.
    pub shared_bytes: usize,
}

/// The libraries' names. The first one is opened by the second one, by name only.
const LIBRARIES: [&str; 2] = ["libnvrtc-builtins.so.13.0", "libnvrtc.so.13"];

impl Nvrtc {
    /// Finds NVRTC in `folder`; without one, in the folder that the environment variable `PARITY_NVRTC` names, and
    /// where the system looks for libraries.
    pub fn find(folder: Option<&Path>) -> Result<Self, Error> {
        let folder = folder.map(PathBuf::from).or_else(|| env::var_os("PARITY_NVRTC").map(PathBuf::from));
        let mut looked_for = vec!["libnvrtc.so in the system's library folders".to_owned()];
        if let Some(folder) = &folder {
            for name in LIBRARIES {
                let path = folder.join(name);
                looked_for.insert(0, path.display().to_string());
                load_for_good(&path);
            }
        }
        #[expect(unsafe_code, reason = "loading a library runs its constructors")]
        // SAFETY: it is NVIDIA's compiler, which is made to be loaded so.
        let is_there = unsafe { sys::is_culib_present() };
        if !is_there {
            return Err(Error::NoNvrtc { looked_for });
        }
        let mut version = (0, 0);
        #[expect(unsafe_code, reason = "a foreign function")]
        // SAFETY: it writes two numbers, which it is given places for.
        let status = unsafe { sys::nvrtcVersion(&raw mut version.0, &raw mut version.1) };
        if status == nvrtcResult::NVRTC_SUCCESS { Ok(Self { version }) } else { Err(Error::NoNvrtc { looked_for }) }
    }

    /// Major and minor version.
    pub fn version(&self) -> (i32, i32) {
        self.version
    }

    /// Compiles a kernel for an architecture, as `sm_90a`.
    pub fn compile(&self, kernel: &Kernel, sources: &Sources, architecture: &str) -> Result<Compiled, Error> {
        let failed = |log: String| Error::Compile { kernel: format!("{} for {architecture}", kernel.label()), log };
        let program = Program::new(kernel, sources).map_err(failed)?;
        let status = program.compile(&options(kernel, architecture));
        let log = program.log();
        if status != nvrtcResult::NVRTC_SUCCESS {
            return Err(failed(log));
        }
        Ok(Compiled { cubin: program.cubin(), resources: resources(&log), log })
    }
}

/// Loads a library so that later requests for its name find it. If that fails, so do they.
fn load_for_good(path: &Path) {
    #[expect(unsafe_code, reason = "loading a library runs its constructors")]
    // SAFETY: it is NVIDIA's compiler, which is made to be loaded so.
    let library = unsafe { libloading::Library::new(path) };
    std::mem::forget(library);
}

/// What a kernel is compiled with for an architecture. What is written is computed, without contraction to `fma`, as on
/// the emulated device.
pub(crate) fn options(kernel: &Kernel, architecture: &str) -> Vec<String> {
    let mut options = vec![
        format!("--gpu-architecture={architecture}"),
        "--std=c++17".to_owned(),
        "--fmad=false".to_owned(),
        "--ptxas-options=-v".to_owned(),
    ];
    options.extend(kernel.constants.iter().map(|(name, value)| format!("-D{name}={value}")));
    options
}

/// A program of NVRTC's.
struct Program(nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        #[expect(unsafe_code, reason = "a foreign function")]
        // SAFETY: the program was made by `new` and is destroyed once.
        unsafe {
            sys::nvrtcDestroyProgram(&raw mut self.0);
        }
    }
}

impl Program {
    fn new(kernel: &Kernel, sources: &Sources) -> Result<Self, String> {
        let c_string = |text: &str| CString::new(text).map_err(|error| error.to_string());
        let file = kernel.file();
        let source = c_string(sources.text(&file).ok_or_else(|| format!("there is no {file}"))?)?;
        let name = c_string(&file)?;
        let headers: Vec<_> = sources.files().filter(|(name, _)| has_extension(name, "cuh")).collect();
        let names = headers.iter().map(|(name, _)| c_string(name)).collect::<Result<Vec<_>, _>>()?;
        let texts = headers.iter().map(|(_, text)| c_string(text)).collect::<Result<Vec<_>, _>>()?;
        let name_pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
        let text_pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        let count = c_int::try_from(headers.len()).expect("there are few headers");
        let mut program = ptr::null_mut();
        #[expect(unsafe_code, reason = "a foreign function")]
        // SAFETY: the strings are terminated, there are `count` of each, and NVRTC copies them.
        let status = unsafe {
            sys::nvrtcCreateProgram(
                &raw mut program,
                source.as_ptr(),
                name.as_ptr(),
                count,
                text_pointers.as_ptr(),
                name_pointers.as_ptr(),
            )
        };
        if status == nvrtcResult::NVRTC_SUCCESS { Ok(Self(program)) } else { Err(format!("{status:?}")) }
    }

    fn compile(&self, options: &[String]) -> nvrtcResult {
        let options: Vec<_> =
            options.iter().map(|option| CString::new(option.as_str()).expect("options have no NUL")).collect();
        let pointers: Vec<_> = options.iter().map(|option| option.as_ptr()).collect();
        let count = c_int::try_from(pointers.len()).expect("there are few options");
        #[expect(unsafe_code, reason = "a foreign function")]
        // SAFETY: the program is alive, and there are `count` terminated strings.
        unsafe {
            sys::nvrtcCompileProgram(self.0, count, pointers.as_ptr())
        }
    }

    fn log(&self) -> String {
        let bytes = self.bytes(sys::nvrtcGetProgramLogSize, sys::nvrtcGetProgramLog);
        String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_owned()
    }

    fn cubin(&self) -> Vec<u8> {
        self.bytes(sys::nvrtcGetCUBINSize, sys::nvrtcGetCUBIN)
    }

    /// What one of NVRTC's pairs of functions gives.
    fn bytes(
        &self,
        size: unsafe fn(nvrtcProgram, *mut usize) -> nvrtcResult,
        get: unsafe fn(nvrtcProgram, *mut c_char) -> nvrtcResult,
    ) -> Vec<u8> {
        let mut length = 0;
        #[expect(unsafe_code, reason = "a foreign function")]
        // SAFETY: the program is alive, and the function writes one number, which it is given a place for.
        let status = unsafe { size(self.0, &raw mut length) };
        if status != nvrtcResult::NVRTC_SUCCESS {
            return Vec::new();
        }
        let mut bytes = vec![0_u8; length];
        #[expect(unsafe_code, reason = "a foreign function")]
        // SAFETY: the program is alive, and the function writes as many bytes as its other half said.
        let status = unsafe { get(self.0, bytes.as_mut_ptr().cast()) };
        if status == nvrtcResult::NVRTC_SUCCESS { bytes } else { Vec::new() }
    }
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|it| it == extension)
}

/// What `ptxas -v` says of each entry.
fn resources(log: &str) -> Vec<Resources> {
    let mut all: Vec<Resources> = Vec::new();
    for line in log.lines() {
        if let Some(entry) = line.split("Compiling entry function '").nth(1).and_then(|rest| rest.split('\'').next()) {
            all.push(Resources { entry: entry.to_owned(), ..Resources::default() });
        }
        let Some(last) = all.last_mut() else { continue };
        if let Some(bytes) = before(line, " bytes stack frame") {
            last.stack_bytes = bytes;
            last.spilled_bytes =
                before(line, " bytes spill stores").unwrap_or(0) + before(line, " bytes spill loads").unwrap_or(0);
        }
        if let Some(registers) = before(line, " registers") {
            last.registers = registers;
            last.shared_bytes = before(line, " bytes smem").unwrap_or(0);
        }
    }
    all
}

/// The number that stands before `unit`.
fn before(line: &str, unit: &str) -> Option<usize> {
    let (text, _) = line.split_once(unit)?;
    let digits = text.rsplit(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_are_read_from_the_log() {
        let log = "ptxas info    : 0 bytes gmem\n\
            ptxas info    : Compiling entry function 'one' for 'sm_90'\n\
            ptxas info    : Function properties for one\n\
            \x20   16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n\
            ptxas info    : Used 74 registers, used 1 barriers, 16 bytes cumulative stack size, 32 bytes smem\n\
            ptxas info    : Compiling entry function 'two' for 'sm_90'\n\
            ptxas info    : Function properties for two\n\
            \x20   0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
            ptxas info    : Used 8 registers\n";
        let one =
            Resources { entry: "one".to_owned(), registers: 74, spilled_bytes: 12, stack_bytes: 16, shared_bytes: 32 };
        let two = Resources { entry: "two".to_owned(), registers: 8, ..Resources::default() };
        assert_eq!(resources(log), [one, two]);
    }
}
