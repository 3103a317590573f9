//! What a run of the reference has done, in a folder: each phase of each call is a `.safetensors` file of what it showed and what
//! it left to those that follow. The phase is done when a file beside it has the SHA-256 of that, as `sha256sum` writes it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use fixtures::activations::dump::Dump;
use fixtures::bytes::Bytes;
use fixtures::fingerprint::sha256;
use fixtures::formats::safetensors::write::Stream;
use fixtures::{Error, Tensor, whole};
use ndarray::Array2;
use reference::{Real, Storage};

use super::phases::{Left, Phase};
use super::resume::Folder;
use crate::failure::Failure;

/// What names of what a phase showed begin with; a number follows, which keeps their order, and a name.
const SHOWN: &str = "shown.";

/// What names of what a phase left begin with.
const LEFT: &str = "left.";

/// What a phase may leave.
const NAMES: [&str; 6] = ["stream", "unrounded", "keys", "values", "index_keys", "logits"];

/// The phases of a run that are done, and the one that is under way.
#[derive(Debug)]
pub(super) struct Kept {
    folder: PathBuf,
    open: RefCell<Option<Open>>,
}

#[derive(Debug)]
struct Open {
    path: PathBuf,
    stream: Stream,
    shown: usize,
}

/// What is kept of a phase.
pub(super) struct Done(Dump);

impl Kept {
    /// Those in a folder.
    pub(super) fn new(folder: &Folder) -> Self {
        Kept { folder: folder.path().to_owned(), open: RefCell::default() }
    }

    /// What a phase of a call showed and left, if it is done; or why what is there cannot be used.
    pub(super) fn done(&self, call: usize, phase: Phase) -> Result<Option<Done>, String> {
        let path = self.file(call, phase);
        let damaged = |why: String| format!("{} is damaged, and done again: {why}", path.display());
        let hash = match fs::read_to_string(path.with_extension(HASH)) {
            Ok(hash) => hash,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(damaged(error.to_string())),
        };
        let bytes = Bytes::map(&path).map_err(|error| damaged(error.to_string()))?;
        let found = sha256(bytes.all().map_err(|error| damaged(error.to_string()))?);
        if hash.split(' ').next() != Some(found.as_str()) {
            return Err(damaged("its hash is another than it says".into()));
        }
        Dump::open(&path).map(|dump| Some(Done(dump))).map_err(|error| damaged(error.to_string()))
    }

    /// Begins a phase.
    pub(super) fn begin(&self, call: usize, phase: Phase) -> Result<(), Failure> {
        let path = self.file(call, phase);
        let stream = Stream::create(&path)?;
        *self.open.borrow_mut() = Some(Open { path, stream, shown: 0 });
        Ok(())
    }

    /// Keeps what the phase that is under way shows, if there is one.
    pub(super) fn show(&self, name: &str, tensor: &Tensor<'_>) -> Result<(), Error> {
        let mut open = self.open.borrow_mut();
        let Some(Open { stream, shown, .. }) = &mut *open else { return Ok(()) };
        *shown += 1;
        stream.write(&format!("{SHOWN}{shown:08}.{name}"), tensor)
    }

    /// Ends the phase, which has left this.
    pub(super) fn end<T: Real>(&self, left: &Left<T>) -> Result<(), Failure> {
        let Open { path, mut stream, .. } = self.open.take().expect("a phase is under way");
        let storage = if T::UNIT_ROUNDOFF == f64::UNIT_ROUNDOFF { Storage::Real } else { Storage::F32 };
        for (name, value) in left {
            let (rows, columns) = value.dim();
            let tensor = Tensor::stored(storage, [rows, columns], value.iter().map(|x| x.wide()));
            stream.write(&format!("{LEFT}{name}"), &tensor.expect("it has as many values"))?;
        }
        stream.finish(&BTreeMap::new())?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let hash = sha256(Bytes::map(&path)?.all()?);
        Ok(whole::write(&path.with_extension(HASH), format!("{hash}  {name}\n").as_bytes())?)
    }

    fn file(&self, call: usize, phase: Phase) -> PathBuf {
        self.folder.join(format!("call-{call}-{phase}.safetensors"))
    }
}

/// How the name of the file ends that has a file's SHA-256.
const HASH: &str = "sha256";

impl Done {
    /// Hands on what it showed, as it did.
    pub(super) fn show(&self, mut to: impl FnMut(&str, Tensor<'static>) -> Result<(), Failure>) -> Result<(), Failure> {
        for name in self.0.names() {
            let shown = name.strip_prefix(SHOWN).and_then(|rest| rest.split_once('.'));
            if let Some((_, shown)) = shown {
                let tensor = self.0.tensor(name)?;
                let owned = Tensor::new(tensor.dtype(), tensor.shape(), tensor.bytes().to_vec());
                to(shown, owned.expect("the same bytes"))?;
            }
        }
        Ok(())
    }

    /// What it left.
    pub(super) fn left<T: Real>(&self) -> Result<Left<T>, Failure> {
        let mut left = Left::new();
        for name in NAMES {
            let stored = format!("{LEFT}{name}");
            if self.0.find(&stored).is_none() {
                continue;
            }
            let tensor = self.0.tensor(&stored)?;
            let [rows, columns] = tensor.shape()[..] else { return Err(self.is_other()) };
            let value = Array2::from_shape_vec((rows, columns), tensor.values()).map_err(|_| self.is_other())?;
            left.push((name, value));
        }
        Ok(left)
    }

    /// What there is to say where it has not what such a phase leaves.
    pub(super) fn is_other(&self) -> Failure {
        let problem = format!("{}: has not what a run keeps of this phase", Path::display(self.0.path()));
        Failure::new(problem).help("remove the folder of --resume: another version of parity wrote it")
    }
}
