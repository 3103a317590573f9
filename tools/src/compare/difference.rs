//! Two dumps, pair by pair, without a model's help or with it.

use fixtures::activations::dump::Dump;
use fixtures::activations::rows::{Pass, Request};
use fixtures::names::at::At;
use fixtures::names::map::NameMap;
use fixtures::names::sited::{Columns, Sited};
use fixtures::{Dtype, Tensor};
use ndarray::Axis;
use reference::config::{Config, Vision};
use reference::media::PASSES;
use reference::site::Extent;
use reference::{LayerSite, Site};
use serde::Serialize;

use crate::compare::kind::Kind;
use crate::compare::metrics::unravel;
use crate::compare::metrics::{Elements, Metrics, metrics};
use crate::compare::selection::Selection;
use crate::failure::Failure;

/// How two dumps differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The schema of this as JSON.
    pub schema: u32,
    /// The first dump.
    pub a: String,
    /// The second dump, which relative figures refer to.
    pub b: String,
    /// What both have, in the order in which a token meets it.
    pub pairs: Vec<Pair>,
    /// Names that only the first has.
    pub only_a: Vec<String>,
    /// Names that only the second has.
    pub only_b: Vec<String>,
}

/// How two tensors of one name differ.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Pair {
    /// The name in both.
    pub name: String,
    /// The shape in each, without axes of 1 before it.
    pub shapes: [Vec<usize>; 2],
    /// The figures; none for different shapes.
    pub metrics: Option<Metrics>,
}

impl Pair {
    /// Why the two cannot be called close at all.
    pub fn fault(&self) -> Option<&'static str> {
        match &self.metrics {
            None => Some("other shape"),
            Some(m) if m.nan[0] != m.nan[1] => Some("NaN"),
            Some(m) if m.infinite[0] != m.infinite[1] => Some("Inf"),
            Some(_) => None,
        }
    }

    /// RMS of the difference relative to that of the second.
    pub fn relative(&self) -> Option<f64> {
        self.metrics.map(|m| if m.rms == 0.0 { 0.0 } else { m.rms / m.signal })
    }

    /// The layer and step whose output this is, if it is one's.
    pub fn layer(&self) -> Option<(usize, usize)> {
        let (step, path) = At::split(&self.name);
        match path.parse() {
            Ok(Site::Layer(layer, LayerSite::Output)) => Some((step, layer)),
            _ => None,
        }
    }

    /// An element's place in the tensor.
    pub fn index(&self, flat: usize) -> Vec<usize> {
        unravel(flat, &self.shapes[1])
    }
}

impl Difference {
    /// Compares what two dumps call the same.
    pub fn by_name(a: &Dump, b: &Dump, selection: &Selection, progress: impl Fn()) -> Result<Self, Failure> {
        let mut names: Vec<&str> = b.names().filter(|name| selection.has_name(name)).collect();
        names.sort_by_key(|name| place(name));
        let (both, only_b): (Vec<&str>, Vec<&str>) = names.into_iter().partition(|name| a.find(name).is_some());
        let only_a = a.names().filter(|name| selection.has_name(name) && b.find(name).is_none());
        let mut pairs = Vec::with_capacity(both.len());
        for name in both {
            pairs.push(pair(name, &a.tensor(name)?, &b.tensor(name)?));
            progress();
        }
        Ok(Difference {
            schema: 1,
            a: a.path().display().to_string(),
            b: b.path().display().to_string(),
            pairs,
            only_a: only_a.map(str::to_owned).collect(),
            only_b: only_b.into_iter().map(str::to_owned).collect(),
        })
    }

    /// Compares what is the same site in two dumps of a model, by whatever names.
    pub fn by_site(
        [a, b]: [Dump; 2],
        config: &Config,
        maps: &[NameMap],
        selection: &Selection,
        progress: impl Fn(),
    ) -> Result<Self, Failure> {
        let [a, b] = [a, b].map(|dump| Sited::new(dump, config, maps));
        let extents = extents(&a, &b, config)?;
        let rows = [of_all(&a, &extents), of_all(&b, &extents)];
        let (both, only_b): (Vec<At>, Vec<At>) =
            b.sites().filter(|at| selection.has(at.site)).partition(|at| a.has(*at));
        let only_a = a.sites().filter(|at| selection.has(at.site) && !b.has(*at));
        let mut pairs = Vec::with_capacity(both.len());
        for at in both {
            let extent = extents[at.step];
            let direct = whole(&a, at, extent).ok().zip(whole(&b, at, extent).ok());
            let (a, b) = match direct.filter(|(a, b)| without_batch(a.shape()) == without_batch(b.shape())) {
                Some(direct) => direct,
                None => common_rows([&rows[0], &rows[1]], at, extent)?,
            };
            pairs.push(pair(&at.to_string(), &a, &b));
            progress();
        }
        Ok(Difference {
            schema: 1,
            a: a.dump().path().display().to_string(),
            b: b.dump().path().display().to_string(),
            pairs,
            only_a: only_a.map(|at| at.to_string()).collect(),
            only_b: only_b.iter().map(At::to_string).collect(),
        })
    }

    /// The first pair that differs at all.
    pub fn first(&self) -> Option<&Pair> {
        self.pairs.iter().find(|pair| pair.metrics.is_none_or(|m| m.unequal > 0))
    }
}

/// The order in which a token meets sites; other names after them.
fn place(name: &str) -> (usize, bool, Option<Site>, String) {
    let (step, path) = At::split(name);
    let site = path.parse().ok();
    (step, site.is_none(), site, path.to_owned())
}

fn pair(name: &str, a: &Tensor<'_>, b: &Tensor<'_>) -> Pair {
    let shapes = [a, b].map(|tensor| without_batch(tensor.shape()).to_vec());
    let (mut of_a, mut of_b) = (Vec::new(), Vec::new());
    let metrics = if shapes[0] == shapes[1] { metrics(elements(a, &mut of_a), elements(b, &mut of_b)) } else { None };
    Pair { name: name.to_owned(), shapes, metrics }
}

/// The shape without axes of 1 before the last two.
fn without_batch(mut shape: &[usize]) -> &[usize] {
    while let [1, rest @ ..] = shape
        && rest.len() >= 2
    {
        shape = rest;
    }
    shape
}

/// A tensor's elements where they lie, or widened in `room`.
fn elements<'t>(tensor: &'t Tensor<'_>, room: &'t mut Vec<u8>) -> Elements<'t> {
    let kind = match tensor.dtype() {
        Dtype::F32 => Kind::F32,
        Dtype::F16 => Kind::F16,
        Dtype::Bf16 => Kind::Bf16,
        Dtype::F64 => Kind::F64,
        _ => Kind::Widened,
    };
    if kind != Kind::Widened {
        return Elements { bytes: tensor.bytes(), kind };
    }
    room.extend(tensor.values::<f64>().iter().flat_map(|x| x.to_le_bytes()));
    Elements { bytes: room, kind }
}

/// A site's values: the tensor that has them, or its part that does.
fn whole(dump: &Sited, at: At, extent: Extent) -> Result<Tensor<'_>, Failure> {
    let Columns { tensor, width, columns } = dump.columns(at, extent)?;
    if columns == (0..width) {
        return Ok(tensor);
    }
    let values = dump.matrix::<f64>(at, extent)?;
    let tensor = Tensor::stored(reference::Storage::Real, values.shape(), values.iter().copied());
    Ok(tensor.expect("a matrix has its shape's elements"))
}

/// A dump of which all rows of a call are seen as one request's, in whatever layout.
fn of_all(dump: &Sited, extents: &[Extent]) -> Sited {
    let sizes = dump.sizes();
    let passes = extents.iter().enumerate().map(|(step, extent)| {
        let batch = sizes.get(step).and_then(|size| size.batch).unwrap_or(1);
        Pass::of_all(step, (batch, extent.tokens / batch), extent.positions / batch)
    });
    dump.of(Request { passes: passes.collect(), ..Request::default() })
}

/// The rows of a site that both dumps show.
fn common_rows([a, b]: [&Sited; 2], at: At, extent: Extent) -> Result<(Tensor<'_>, Tensor<'_>), Failure> {
    let shown = [a.shown(at, extent)?, b.shown(at, extent)?];
    let of = |dump: &Sited, own: &Option<Vec<usize>>, other: &Option<Vec<usize>>| {
        let values = dump.matrix::<f64>(at, extent)?;
        let own: Vec<usize> = own.clone().unwrap_or_else(|| (0..values.nrows()).collect());
        let is_common = |row: &usize| other.as_ref().is_none_or(|other| other.contains(row));
        let rows: Vec<usize> = (0..own.len()).filter(|&i| is_common(&own[i])).collect();
        let values = if own.len() == values.nrows() { values.select(Axis(0), &rows) } else { values };
        let tensor = Tensor::stored(reference::Storage::Real, values.shape(), values.iter().copied());
        Ok::<_, Failure>(tensor.expect("a matrix has its shape's elements"))
    };
    Ok((of(a, &shown[0], &shown[1])?, of(b, &shown[1], &shown[0])?))
}

/// How many tokens each step has, and patches the first, by the tensors of either dump whose rows these are.
fn extents(a: &Sited, b: &Sited, config: &Config) -> Result<Vec<Extent>, Failure> {
    let mut extents: Vec<Extent> = Vec::new();
    let last = a.sites().chain(b.sites()).map(|at| at.step).max().unwrap_or(0);
    let square = config.vision.as_ref().map_or(1, Vision::merged);
    let one = Extent::new(1, 1).seeing([square; PASSES]);
    let sizes = [a.sizes(), b.sizes()];
    let rows = |step: usize| sizes.iter().filter_map(|sizes| sizes.get(step)?.rows).max();
    // How often a dump has the patches of `one` at a site of the step.
    let times = |step, pass| {
        [a, b].into_iter().find_map(|dump| {
            let of =
                |at: &At| at.step == step && pass_of(at.site) == Some(pass) && at.site.shape(config, one).len() == 2;
            let at = dump.sites().find(of)?;
            let listed = dump.dump().find(&dump.reading().values[&at].tensor)?;
            Some(without_batch(listed.shape).first()? / at.site.shape(config, one)[0])
        })
    };
    for step in 0..=last {
        let tokens = rows(step).ok_or_else(|| {
            Failure::new(format!("no tensor tells how many tokens step {step} has"))
                .help("compare by names, without --model")
        })?;
        let positions = extents.last().map_or(0, |extent| extent.positions) + tokens;
        let patches = |pass| times(step, pass).unwrap_or(0) * square;
        extents.push(Extent::new(tokens, positions).seeing(std::array::from_fn(patches)));
    }
    Ok(extents)
}

/// The pass through the vision tower that a site is on, if it is on one.
fn pass_of(site: Site) -> Option<usize> {
    match site {
        Site::Vision(pass, _) => Some(pass),
        _ => None,
    }
}
