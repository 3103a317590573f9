//! Tensors in memory, by name.

use std::collections::BTreeMap;
use std::path::Path;

use fixtures::activations::dump::Dump;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::source::HeldTensor;
use fixtures::activations::writer::DumpWriter;
use fixtures::bytes::Held;
use fixtures::{Dtype, Tensor};
use half::{bf16, f16};
use reference::decode::Decode;
use reference::ops::sampling::Sampling;
use tools::compare::selection::Selection;
use tools::failure::Failure;
use tools::session::backend::Computing;
use tools::session::model::Model;
use tools::session::run::{Recording, Task, record};

/// What tensors in memory are called in messages.
const IN_MEMORY: &str = "tensors in memory";

/// Tensors by their names, such as `model.layers.3.self_attn.q_norm`, of shapes \[T, …\], \[1, T, …\] or \[B, T, …\].
#[derive(Debug, Clone, Default)]
pub struct Tensors(BTreeMap<String, HeldTensor>);

/// A type of elements.
pub trait Element: Copy {
    /// Its name in files.
    const DTYPE: Dtype;

    /// Its bytes, little-endian.
    fn bytes(self) -> impl IntoIterator<Item = u8>;
}

macro_rules! elements {
    ($($element:ty: $dtype:ident),*) => {
        $(impl Element for $element {
            const DTYPE: Dtype = Dtype::$dtype;

            fn bytes(self) -> impl IntoIterator<Item = u8> {
                self.to_le_bytes()
            }
        })*
    };
}

elements!(f64: F64, f32: F32, f16: F16, bf16: Bf16, i64: I64, i32: I32);

impl Tensors {
    /// None.
    pub fn new() -> Self {
        Tensors::default()
    }

    /// These and one more, or another of its name, with its elements in C order. Refused, if the shape has another number of
    /// them.
    pub fn with<E: Element>(mut self, name: &str, shape: &[usize], values: &[E]) -> Result<Self, Failure> {
        let has = shape.iter().product::<usize>();
        if has != values.len() {
            let problem = format!("{name}: {} values, expected {has} of a shape {shape:?}", values.len());
            return Err(Failure::new(problem).help("give the tensor's own shape, and all its elements in C order"));
        }
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.bytes()).collect();
        self.insert(name, E::DTYPE, shape, bytes);
        Ok(self)
    }

    /// These, where one is changed element by element, and kept as f64 from then on. Refused, if there is none of that name.
    pub fn map(mut self, name: &str, change: impl Fn(f64) -> f64) -> Result<Self, Failure> {
        let Some(held) = self.0.get(name) else {
            let names: Vec<&str> = self.names().collect();
            return Err(Failure::new(format!("there is no {name}")).help(format!("there are {}", names.join(", "))));
        };
        let (values, shape) = (held_values(held), held.shape.clone());
        let bytes: Vec<u8> = values.into_iter().flat_map(|value| change(value).to_le_bytes()).collect();
        self.insert(name, Dtype::F64, &shape, bytes);
        Ok(self)
    }

    /// Their names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Writes them as a dump: a `.safetensors` or `.npz` file if the name ends so, else a folder. It appears when it is whole.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<(), Failure> {
        let mut writer = DumpWriter::create(path.as_ref())?;
        for (name, held) in &self.0 {
            let tensor = Tensor::new(held.dtype, held.shape.clone(), &held.bytes[..]).expect("the shape was checked");
            writer.write(name, &tensor)?;
        }
        Ok(writer.finish(&Manifest::default())?)
    }

    pub(crate) fn dump(&self) -> Result<Dump, Failure> {
        Ok(Dump::of_tensors(IN_MEMORY, self.0.values().cloned(), None)?)
    }

    fn insert(&mut self, name: &str, dtype: Dtype, shape: &[usize], bytes: Vec<u8>) {
        let held = HeldTensor { name: name.to_owned(), dtype, shape: shape.to_vec(), bytes: Held::new(bytes) };
        self.0.insert(name.to_owned(), held);
    }
}

fn held_values(held: &HeldTensor) -> Vec<f64> {
    Tensor::new(held.dtype, held.shape.clone(), &held.bytes[..]).expect("the shape was checked").values()
}

/// What the reference computes from a built-in case's prompt, in f64, at the sites that fit one of these patterns; at all but
/// those that cost more, if there is none.
pub fn reference(model: &str, sites: &[&str]) -> Result<Tensors, Failure> {
    let model = Model::open(model)?;
    let how = Decode { tokens: 0, sampling: Sampling::Greedy, seed: 0, chunk: None };
    let (computing, semantics) = (Computing::Reference("f64".to_owned()), model.semantics()?);
    let task = Task { computing, tokens: None, shown: <_>::default(), semantics, how };
    let patterns: Vec<String> = sites.iter().map(ToString::to_string).collect();
    let mut tensors = Tensors::new();
    let mut write = |name: &str, tensor: Tensor<'static>| {
        tensors.insert(name, tensor.dtype(), tensor.shape(), tensor.bytes().to_vec());
        Ok(())
    };
    let recording =
        Recording { write: &mut write, selection: Selection::parse(None, &patterns)?, steps: false, resume: None };
    record(&model, &task, recording, &mut |_| ())?;
    Ok(tensors)
}
