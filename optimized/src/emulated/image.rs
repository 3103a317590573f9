//! Kernel images: a `.cu` file compiled for the emulated device, as the build script and the tests make them.
//!
//! An image is a shared object with a table from its addresses to the kernel's lines. `emulator/image.cpp` and
//! `emulator/line_table.cpp` read it.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use addr2line::gimli::{Dwarf, EndianSlice, LittleEndian, SectionId};
use object::{Object, ObjectSection};

/// How kernels are compiled for the emulated device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// Optimized, on all cores. Finds divergence, deadlocks and misaligned copies.
    Fast,
    /// Every load and store is checked. Finds races, and uninitialised, freed and out-of-bounds memory too.
    Checked,
    /// The same images on all cores, of which every load and store is counted and none is checked.
    Counting,
}

/// What both forms are compiled with. Calls of the runtime are told apart by their addresses, so no two may be merged;
/// and what is written is computed, without contraction, as NVRTC is told too.
const FLAGS: &[&str] = &[
    "-x",
    "c++",
    "-std=c++17",
    "-g",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-strict-aliasing",
    "-ffp-contract=off",
    "-fno-crossjumping",
    "-fno-tree-tail-merge",
    "-fno-ipa-icf",
    "-Werror=frame-larger-than=49152", // a thread's stack is 64 KiB
    "-Wall",
    "-Wno-unknown-pragmas",
    "-Wno-psabi",
];

impl Form {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Fast => &["-O2"],
            Self::Checked | Self::Counting => {
                &["-O1", "-fsanitize=thread", "--param=tsan-instrument-func-entry-exit=0"]
            }
        }
    }
}

/// Headers whose lines stand for what calls them.
const WRAPPERS: &[&str] = &["simt.cuh", "simt_host.h", "simt_host_instructions.h", "interface.h"];

/// One image to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job<'a> {
    /// Name of the `.cu` file.
    pub(crate) file: &'a str,
    /// Its kernels.
    pub(crate) entries: &'a [&'a str],
    /// `-DNAME=value`.
    pub(crate) constants: &'a [(&'a str, u32)],
    /// How to compile it.
    pub(crate) form: Form,
}

/// Compiles one image, with `folders` searched for the file and its headers and `scratch` for its temporary files.
///
/// The error is what the compiler said.
pub(crate) fn make(job: Job<'_>, folders: &[PathBuf], scratch: &Path) -> Result<Vec<u8>, String> {
    let in_scratch = |name: &str| scratch.join(name);
    let (unit, object, traced, stripped) =
        (in_scratch("unit.cpp"), in_scratch("unit.o"), in_scratch("traced.so"), in_scratch("stripped.so"));
    let include = format!("#include \"{}\"\n", job.file);
    let text = job.entries.iter().fold(include, |text, entry| format!("{text}EMULATED_ENTRY({entry})\n"));
    fs::write(&unit, text).map_err(|error| error.to_string())?;

    let mut compile = compiler();
    compile.args(FLAGS).args(job.form.flags());
    compile.args(job.constants.iter().map(|(name, value)| format!("-D{name}={value}")));
    compile.args(folders.iter().map(|folder| format!("-I{}", folder.display())));
    run(compile.arg("-c").arg(&unit).arg("-o").arg(&object))?;

    // Linked with lines, to make the table, and again without.
    let link = |more: &[&str], to: &Path| {
        let mut link = compiler();
        link.args(["-shared", "-nostdlib", "-Wl,-z,noseparate-code", "-Wl,--hash-style=gnu"]).args(more);
        run(link.arg(&object).args(["-lm", "-lc", "-lgcc"]).arg("-o").arg(to))
    };
    link(&[], &traced)?;
    link(&["-Wl,-s"], &stripped)?;
    let table = line_table(&fs::read(&traced).map_err(|error| error.to_string())?)?;
    let code = fs::read(&stripped).map_err(|error| error.to_string())?;

    let form = match job.form {
        Form::Fast => 0,
        Form::Checked | Form::Counting => 1,
    };
    let mut image = b"PARITYEM".to_vec();
    push(&mut image, &[form, code.len(), table.len(), 0]);
    image.extend(code);
    image.extend(table);
    Ok(image)
}

/// The C++ compiler, ready for arguments: what `CXX` says, which may be several words, or the system's.
pub(crate) fn compiler() -> Command {
    let said = env::var("CXX").unwrap_or_default();
    let mut words = said.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("c++"));
    command.args(words);
    command
}

/// Runs the compiler; the error is what it printed.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| {
        let program = command.get_program().display();
        format!("{program}: {error}; the emulated device needs a C++ compiler, which CXX may name")
    })?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Appends numbers as 32 bits each.
fn push(bytes: &mut Vec<u8>, numbers: &[usize]) {
    for &number in numbers {
        bytes.extend(u32::try_from(number).expect("images are smaller than 4 GiB").to_le_bytes());
    }
}

/// A line, and the place that it was inlined into; 0 is none.
#[derive(PartialEq, Eq, Hash, Clone, Copy, Default)]
struct Place {
    file: usize,
    line: usize,
    caller: usize,
}

/// Numbers things from 1 in the order in which they come.
#[derive(Default)]
struct Numbers<T>(Vec<T>, HashMap<T, usize>);

impl<T: Clone + Eq + std::hash::Hash> Numbers<T> {
    fn number_of(&mut self, thing: T) -> usize {
        *self.1.entry(thing.clone()).or_insert_with(|| {
            self.0.push(thing);
            self.0.len()
        })
    }
}

/// The table of a linked object: rows of address and place, places, file names.
fn line_table(object: &[u8]) -> Result<Vec<u8>, String> {
    let object = object::File::parse(object).map_err(|error| error.to_string())?;
    let section = |id: SectionId| {
        let data = object.section_by_name(id.name()).and_then(|section| section.data().ok());
        Ok::<_, addr2line::gimli::Error>(EndianSlice::new(data.unwrap_or(&[]), LittleEndian))
    };
    let lines = Dwarf::load(section).and_then(addr2line::Context::from_dwarf).map_err(|error| error.to_string())?;

    let mut files = Numbers::<String>::default();
    let mut places = Numbers::<Place>::default();
    let mut rows: Vec<(u64, usize)> = Vec::new();
    for (address, length, _) in lines.find_location_range(0, u64::MAX).map_err(|error| error.to_string())? {
        let place = place_at(&lines, address, &mut files, &mut places)?;
        if rows.last().is_some_and(|&(end, place)| place == 0 && end == address) {
            rows.pop();
        }
        if rows.last().is_none_or(|&(_, last)| last != place) {
            rows.push((address, place));
        }
        rows.push((address + length, 0));
    }
    let names: Vec<u8> = files.0.iter().flat_map(|name| name.bytes().chain([0])).collect();
    let mut table = Vec::new();
    push(&mut table, &[rows.len(), places.0.len(), files.0.len(), names.len()]);
    for (address, place) in rows {
        push(&mut table, &[usize::try_from(address).expect("a 64-bit host"), place]);
    }
    for place in &places.0 {
        push(&mut table, &[place.file - 1, place.line, place.caller]);
    }
    let mut offset = 0;
    for name in &files.0 {
        push(&mut table, &[offset]);
        offset += name.len() + 1;
    }
    table.extend(names);
    Ok(table)
}

/// The number of the place of one address, without the wrappers' own lines.
fn place_at(
    lines: &addr2line::Context<EndianSlice<'_, LittleEndian>>,
    address: u64,
    files: &mut Numbers<String>,
    places: &mut Numbers<Place>,
) -> Result<usize, String> {
    let mut frames = lines.find_frames(address).skip_all_loads().map_err(|error| error.to_string())?;
    let mut inner_to_outer = Vec::new();
    while let Some(frame) = frames.next().map_err(|error| error.to_string())? {
        let Some((file, line)) = frame.location.and_then(|location| location.file.zip(location.line)) else { continue };
        let name = Path::new(file).file_name().map_or(file.to_owned(), |name| name.to_string_lossy().into_owned());
        if !WRAPPERS.contains(&name.as_str()) {
            inner_to_outer.push((name, line as usize));
        }
    }
    let mut place = 0;
    for (name, line) in inner_to_outer.into_iter().rev() {
        let file = files.number_of(name);
        place = places.number_of(Place { file, line, caller: place });
    }
    Ok(place)
}
