//! Dumps as people write them who do not know what reads them: transformers' own values of a built-in case, laid out otherwise. Of each
//! kind a right one is right, and the same with a value 5 % off is not.

mod beside;
mod caches;
mod chosen;
mod counted;
mod heads;
mod inputs;
mod layouts;
mod meant;
mod measured;
mod named;
mod numbers;
mod rounded;
mod steps;
mod vision;
mod windows;

use std::collections::BTreeMap;
use std::ops::Range;

use fixtures::activations::dump::Dump;
use fixtures::activations::source::HeldTensor;
use fixtures::bytes::Held;
use fixtures::names::map::NameMap;
use fixtures::names::sited::Sited;
use fixtures::{Dtype, Tensor};
use reference::{RoundingContract, Storage};
use tests::repository;
use tools::judge::lens::Lens;
use tools::judge::verdict::Verdict;
use tools::session::dumped::{Dumped, Given, Prefix};
use tools::session::model::Model;

/// Extents and elements.
#[derive(Debug, Clone, PartialEq)]
struct Values {
    shape: Vec<usize>,
    of: Vec<f64>,
}

impl Values {
    fn new(shape: &[usize], of: Vec<f64>) -> Self {
        assert_eq!(shape.iter().product::<usize>(), of.len(), "{shape:?}");
        Values { shape: shape.to_vec(), of }
    }

    /// Each row of the last axis made another.
    fn rows(&self, width: usize, change: impl Fn(usize, &[f64]) -> Vec<f64>) -> Self {
        let rows = self.of.chunks(*self.shape.last().expect("it has an axis")).enumerate();
        let of = rows.flat_map(|(row, values)| change(row, values)).collect();
        let before = &self.shape[..self.shape.len() - 1];
        Values::new(&[before, &[width]].concat(), of)
    }

    /// \[…, rows, columns\] with the last two axes exchanged.
    fn turned(&self) -> Self {
        let [before @ .., rows, columns] = &self.shape[..] else { panic!("two axes") };
        let each = self.of.chunks(rows * columns);
        let turned =
            |one: &[f64]| (0..rows * columns).map(|i| one[i % rows * columns + i / rows]).collect::<Vec<f64>>();
        Values::new(&[before, &[*columns, *rows]].concat(), each.flat_map(turned).collect())
    }

    /// Some of the tokens of \[1, tokens, …\], or of \[tokens, channels\].
    fn tokens(&self, tokens: Range<usize>) -> Self {
        let (before, all, behind) = match &self.shape[..] {
            [all, _] => (&[][..], all, &self.shape[1..]),
            [1, all, behind @ ..] => (&[1][..], all, behind),
            shape => panic!("one list of tokens: {shape:?}"),
        };
        let each = self.of.len() / all;
        let of = self.of[tokens.start * each..tokens.end * each].to_vec();
        Values::new(&[before, &[tokens.len()], behind].concat(), of)
    }

    /// The last of several rows.
    fn last(&self) -> Self {
        let width = *self.shape.last().expect("it has an axis");
        Values::new(&[width], self.of[self.of.len() - width..].to_vec())
    }
}

type Named = BTreeMap<String, Values>;

const CASE: &str = "m2-gqa3-f32";

/// What transformers computed of a case, by the names of modules.
fn computed(case: &str) -> Named {
    let case = repository::golden().case(case).expect("it is one of them");
    let expected = case.expected().expect("it is whole");
    let values = |name: &str| {
        let tensor = expected.tensor(name).expect("it is listed");
        Values::new(tensor.shape(), tensor.values())
    };
    expected.names().map(|name| (name.to_owned(), values(name))).collect()
}

/// Some of it.
fn of_names(names: &[&str]) -> Named {
    of_case(CASE, names)
}

/// The same of another case.
fn of_case(case: &str, names: &[&str]) -> Named {
    let mut all = computed(case);
    names.iter().map(|name| ((*name).to_owned(), all.remove(*name).expect("it is there"))).collect()
}

/// With one tensor 5 % off.
fn off(mut values: Named, name: &str) -> Named {
    values.get_mut(name).expect("it is there").of.iter_mut().for_each(|x| *x *= 1.05);
    values
}

/// How many sites are faults, or suspicious, and how many are judged.
fn judged(values: &Named) -> (usize, usize) {
    try_judged(values).unwrap_or_else(|refused| panic!("{refused}"))
}

/// The requests of a dump of them, with the tokens of the case.
fn dumped(values: &Named, model: &Model) -> Result<Vec<Dumped>, String> {
    dumped_as(values, (Storage::F32, Dtype::F32), None, model)
}

/// The same, stored in a type whose bits are called another one's, and computed in some precision, if that is said.
fn dumped_as(
    values: &Named,
    stored: (Storage, Dtype),
    precision: Option<&str>,
    model: &Model,
) -> Result<Vec<Dumped>, String> {
    let dump = dump_of(values, stored);
    let tokens = repository::golden().case(&model.name).expect("it is one of them").tokens;
    let text = tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let given = Given { tokens: Some(text), precision: precision.map(str::to_owned), ..Given::default() };
    Dumped::of(dump, &given, model).map_err(|refused| refused.to_string())
}

/// A dump of them.
fn dump_of(values: &Named, (storage, dtype): (Storage, Dtype)) -> Dump {
    let held = values.iter().map(|(name, Values { shape, of })| {
        let tensor = Tensor::stored(storage, shape.as_slice(), of.iter().copied()).expect("as many");
        let bytes = Held::new(tensor.bytes().to_vec());
        HeldTensor { name: name.clone(), dtype, shape: shape.clone(), bytes }
    });
    Dump::of_tensors("dump", held, None).expect("it has tensors")
}

fn model() -> Model {
    opened(CASE)
}

fn opened(case: &str) -> Model {
    Model { case: None, ..Model::open(case).expect("it is built in") }
}

/// The precision that is found in them.
fn precision(values: &Named) -> RoundingContract {
    dumped(values, &model()).expect("it is read")[0].known.contract
}

/// The same, or why it is refused.
fn try_judged(values: &Named) -> Result<(usize, usize), String> {
    let model = model();
    judged_of(&dumped(values, &model)?, &model)
}

/// How many sites of values of another case are faults, or suspicious.
fn faults(case: &str, values: &Named) -> usize {
    let model = opened(case);
    let found = dumped(values, &model).and_then(|requests| judged_of(&requests, &model));
    found.unwrap_or_else(|refused| panic!("{refused}")).0
}

/// The same of what is read, of one request, which may stand there once more.
fn judged_of(requests: &[Dumped], model: &Model) -> Result<(usize, usize), String> {
    assert_eq!(requests.iter().filter(|one| one.prefix != Prefix::Computed).count(), 1, "one request");
    let mut judged = (0, 0);
    for dumped in requests {
        let comparison = dumped.comparison(model);
        let layers = 0..model.checkpoint.config().num_hidden_layers;
        let reference = comparison.model().expect("it fits");
        let lenses = [Lens::Local, Lens::Layer, Lens::Global];
        let found =
            comparison.verification(&reference, &lenses, layers).run(|| ()).map_err(|refused| refused.to_string())?;
        let is_wrong = |verdict| matches!(verdict, Verdict::Fault | Verdict::Suspicious);
        let wrong = found.sites.iter().filter(|report| is_wrong(report.verdict)).count();
        judged = (judged.0 + wrong, judged.1 + found.sites.len());
    }
    Ok(judged)
}

/// Demands that values are right as they are written, so many sites at least, and wrong with a tensor off before that, any of some; in
/// the precision of the right ones, for what one is found of wrong values has tests of its own.
fn hold(what: &str, names: &[&str], written: impl Fn(Named) -> Named, wrong: &[&str], least: usize) {
    let model = model();
    let judged =
        |requests: &[Dumped]| judged_of(requests, &model).unwrap_or_else(|refused| panic!("{what}: {refused}"));
    let right = dumped(&written(of_names(names)), &model).unwrap_or_else(|refused| panic!("{what}: {refused}"));
    let (faults, sites) = judged(&right);
    assert_eq!(faults, 0, "{what}: right ones");
    assert!(sites >= least, "{what}: {sites} sites, expected {least}");
    let precision = right[0].known.contract.to_string();
    for wrong in wrong {
        let off = written(off(of_names(names), wrong));
        let off = dumped_as(&off, (Storage::F32, Dtype::F32), Some(&precision), &model).expect("it is read");
        assert!(judged(&off).0 > 0, "{what}: {wrong} is 5 % off");
    }
}

/// The same with one.
fn holds(names: &[&str], written: impl Fn(Named) -> Named, wrong: &str, least: usize) {
    hold("they", names, written, &[wrong], least);
}
