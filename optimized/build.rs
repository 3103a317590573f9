//! Compiles the emulated device and every kernel for it, to be embedded in the crate.

#[expect(unreachable_pub, dead_code, reason = "the library has this file too")]
#[path = "src/emulated/image.rs"]
mod image;
#[expect(unreachable_pub, reason = "the library has this file too")]
#[path = "src/kernel/instructions.rs"]
mod instructions;
#[expect(unreachable_pub, reason = "the library has this file too")]
#[path = "src/kernel/table.rs"]
mod table;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use image::{Form, Job};
use instructions::INSTRUCTIONS;
use table::{KERNELS, Kernel};

/// The emulated driver's flags.
const DRIVER_FLAGS: &[&str] =
    &["-std=c++17", "-O3", "-fPIC", "-fno-exceptions", "-fno-rtti", "-Wall", "-Wextra", "-Wno-psabi"];

/// What kernels include of the emulated device.
const HOST_HEADERS: [&str; 3] = ["simt_host.h", "simt_host_instructions.h", "interface.h"];

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let files = ["build.rs", "src/emulated/image.rs", "src/kernel/instructions.rs", "src/kernel/table.rs"];
    for watched in ["emulator", "kernels", "src/conformance"].into_iter().chain(files) {
        println!("cargo::rerun-if-changed={watched}");
    }
    println!("cargo::rerun-if-env-changed=CXX");

    let sources = sources(&root);
    let works_here = env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    let images = if works_here { make_images(&root, &out) } else { Vec::new() };
    let driver = out.join("emulated_driver.so");
    if works_here {
        make_driver(&root.join("emulator"), &out, &driver);
    } else {
        fs::write(&driver, []).expect("OUT_DIR can be written");
    }
    fs::write(out.join("embedded.rs"), embedded(&driver, &sources, &images)).expect("OUT_DIR can be written");
}

/// The kernels and what they include.
fn sources(root: &Path) -> Vec<PathBuf> {
    let mut sources = files(&root.join("kernels"), "cu");
    sources.extend(files(&root.join("kernels/include"), "cuh"));
    sources.extend(HOST_HEADERS.map(|name| root.join("emulator").join(name)));
    sources
}

/// The files of a folder whose names end in `extension`, sorted.
fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("the folder can be listed").path()).collect();
    files.retain(|file| file.extension().is_some_and(|it| it == extension));
    files.sort();
    files
}

/// Does `work(i)` for each i below `count`, on as many threads as cargo gives.
fn in_parallel(count: usize, work: impl Fn(usize) + Sync) {
    let threads = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= count {
                        return;
                    }
                    work(i);
                }
            });
        }
    });
}

/// Makes `output`, unless it was made from the same inputs before: cargo says that something changed, not what.
fn unless_fresh(output: &Path, inputs: &[PathBuf], parameters: &str, make: impl FnOnce()) {
    let mut hasher = DefaultHasher::new();
    parameters.hash(&mut hasher);
    for input in inputs {
        fs::read(input).unwrap_or_else(|error| panic!("{}: {error}", input.display())).hash(&mut hasher);
    }
    let key = hasher.finish().to_string();
    let mut stamp = output.as_os_str().to_owned();
    stamp.push(".key");
    if output.exists() && fs::read_to_string(&stamp).is_ok_and(|made_from| made_from == key) {
        return;
    }
    make();
    fs::write(stamp, key).expect("OUT_DIR can be written");
}

/// Compiles each kernel in both forms. The names of the files, fast and checked, in the order of [`KERNELS`]; those of
/// [`INSTRUCTIONS`] come last.
fn make_images(root: &Path, out: &Path) -> Vec<[PathBuf; 2]> {
    let kernels: Vec<&Kernel> = KERNELS.iter().chain([&INSTRUCTIONS]).collect();
    let folders = ["kernels", "kernels/include", "emulator", "src/conformance"].map(|folder| root.join(folder));
    let mut inputs = files(&folders[1], "cuh");
    inputs.extend(HOST_HEADERS.map(|name| root.join("emulator").join(name)));
    inputs.push(root.join("src/emulated/image.rs"));
    let names: Vec<_> =
        (0..kernels.len()).map(|i| ["fast", "checked"].map(|form| out.join(format!("{i}.{form}.image")))).collect();
    in_parallel(2 * kernels.len(), |i| {
        let kernel = kernels[i / 2];
        let form = [Form::Fast, Form::Checked][i % 2];
        let file = format!("{}.cu", kernel.op);
        let job = Job { file: &file, entries: kernel.entries, constants: kernel.constants, form };
        let output = &names[i / 2][i % 2];
        let own =
            folders.iter().map(|folder| folder.join(&file)).find(|path| path.exists()).expect("it is in one of them");
        unless_fresh(
            output,
            &[inputs.as_slice(), &[own]].concat(),
            &format!("{:?} {job:?}", image::compiler()),
            || {
                let scratch = out.join(format!("image-{i}"));
                fs::create_dir_all(&scratch).expect("OUT_DIR can be written");
                let image =
                    image::make(job, &folders, &scratch).unwrap_or_else(|log| panic!("{}:\n{log}", kernel.label()));
                fs::write(output, image).expect("OUT_DIR can be written");
            },
        );
    });
    names
}

/// Compiles and links the driver. cudarc looks for `libcuda.so` first, and takes a library of that name that is loaded
/// already.
fn make_driver(folder: &Path, out: &Path, driver: &Path) {
    let mut units = files(folder, "cpp");
    units.extend(files(&folder.join("driver"), "cpp"));
    let mut headers = files(folder, "h");
    headers.extend(files(&folder.join("driver"), "h"));
    let objects: Vec<_> = (0..units.len()).map(|i| out.join(format!("driver-{i}.o"))).collect();
    in_parallel(units.len(), |i| {
        let inputs = [headers.as_slice(), &[units[i].clone()]].concat();
        let mut compile = image::compiler();
        compile.args(DRIVER_FLAGS).arg("-c").arg(&units[i]).arg("-o").arg(&objects[i]);
        let parameters = format!("{compile:?}");
        unless_fresh(&objects[i], &inputs, &parameters, || {
            image::run(&mut compile).unwrap_or_else(|log| panic!("{}:\n{log}", units[i].display()));
        });
    });
    let link = |more: &[&str]| {
        let mut link = image::compiler();
        link.args(["-shared", "-pthread", "-Wl,-s", "-Wl,--gc-sections", "-Wl,-soname,libcuda.so"]).args(more);
        link.arg(format!("-Wl,--version-script={}", folder.join("exports.map").display()));
        image::run(link.args(&objects).arg("-ldl").arg("-o").arg(driver))
    };
    // With its own C++ library, so that an installed program needs none; not every system has one to link with.
    let linked = link(&["-static-libstdc++", "-static-libgcc"]).or_else(|_| link(&[]));
    linked.unwrap_or_else(|log| panic!("the driver:\n{log}"));
}

/// The Rust source that embeds all of it.
fn embedded(driver: &Path, sources: &[PathBuf], images: &[[PathBuf; 2]]) -> String {
    let literal = |path: &Path| format!("{:?}", path.to_str().expect("the folders' names are UTF-8"));
    let source = |path: &PathBuf| {
        let name = path.file_name().map(Path::new).expect("a file");
        format!("    ({}, include_str!({})),\n", literal(name), literal(path))
    };
    let pair = |[fast, checked]: &[PathBuf; 2]| {
        format!("    [include_bytes!({}), include_bytes!({})],\n", literal(fast), literal(checked))
    };
    format!(
        "pub(crate) static DRIVER: &[u8] = include_bytes!({});\n\
         pub(crate) static SOURCES: &[(&str, &str)] = &[\n{}];\n\
         pub(crate) static IMAGES: &[[&[u8]; 2]] = &[\n{}];\n",
        literal(driver),
        sources.iter().map(source).collect::<String>(),
        images.iter().map(pair).collect::<String>(),
    )
}
