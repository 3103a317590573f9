//! Two dumps side by side.

use std::cell::RefCell;
use std::path::Path;

use fixtures::activations::dump::Dump;
use fixtures::activations::ranks::counted;
use fixtures::names::map::NameMap;

use super::dumped::{Given, open_dump};
use super::model::Model;
use super::progress::{Progress, Watcher};
use crate::compare::difference::Difference;
use crate::compare::selection::Selection;
use crate::failure::Failure;

/// Opens two dumps; of a model, what ranks dumped is put together.
pub fn opened(paths: [&Path; 2], model: Option<&str>) -> Result<[Dump; 2], Failure> {
    let [a, b] = paths;
    let Some(model) = model else {
        for path in paths {
            if let Some(ranks) = counted(path)? {
                let problem = format!("{}: has what each of {ranks} ranks dumped", path.display());
                return Err(Failure::new(problem).help("give --model, by which it is put together"));
            }
        }
        return Ok([Dump::open(a)?, Dump::open(b)?]);
    };
    let model = Model::open(model)?;
    let open = |path| open_dump(Some(path), &Given::default(), &model);
    Ok([open(a)?, open(b)?])
}

/// Compares what two dumps call the same; of a model, what is the same site in both, by the names of whichever engines, and by a
/// map of more names. Refused if that is nothing.
pub fn diff(
    [a, b]: [Dump; 2],
    of: Option<(&str, Option<&Path>)>,
    selection: &Selection,
    watch: &mut Watcher<'_>,
) -> Result<Difference, Failure> {
    let opened = [a.clone(), b.clone()];
    watch(Progress::Begins { what: "comparing", steps: b.names().count() });
    let watch = RefCell::new(watch);
    let step = || (watch.borrow_mut())(Progress::Step);
    let difference = match of {
        None => Difference::by_name(&a, &b, selection, step)?,
        Some((model, names)) => {
            let maps = NameMap::shipped_under(names)?;
            let model = Model::open(model)?;
            Difference::by_site([a, b], model.checkpoint.config(), &maps, selection, step)?
        }
    };
    (watch.borrow_mut())(Progress::Ends);
    opened.iter().try_for_each(Dump::intact)?;
    if difference.pairs.is_empty() {
        let example = |names: &[String]| names.first().cloned().unwrap_or_else(|| "nothing".into());
        let (a, b) = (example(&difference.only_a), example(&difference.only_b));
        return Err(Failure::new(format!("nothing was compared: no selected name is in both (a has {a}, b {b})"))
            .help("give --model, so that sites are compared instead of names"));
    }
    Ok(difference)
}
