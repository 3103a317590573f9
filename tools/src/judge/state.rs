//! Where a run of the model stands between the phases of a forward pass.

use std::fmt;

use ndarray::Array2;
use reference::models::decoder::{Decoder, Stream};
use reference::models::vision::Patches;
use reference::ops::kv_cache::KvCache;
use reference::ops::rope::RopeTable;
use reference::run::Run;
use reference::{Error, Real, Rounding, RoundingContract, Storage, Tracked};

use super::candidate::Start;
use super::stored::saved_as;
use super::substitution::before_saved;

/// A part of a forward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Patch embedding of a pass through the vision tower, its norm and rotation table.
    Patches(usize),
    /// A layer of the tower on that pass.
    TowerLayer(usize, usize),
    /// The projector on that pass.
    Features(usize),
    /// Embedding, with features where there are some, and rotation table.
    Start,
    /// A layer.
    Layer(usize),
    /// Final norm and head.
    Head,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Phase::Patches(_) => f.write_str("patches"),
            Phase::TowerLayer(_, layer) => write!(f, "vision layer {layer}"),
            Phase::Features(_) => f.write_str("features"),
            Phase::Start => f.write_str("embedding"),
            Phase::Layer(layer) => write!(f, "layer {layer}"),
            Phase::Head => f.write_str("head"),
        }
    }
}

/// One forward pass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pass<'a> {
    pub(crate) tokens: &'a [u32],
    /// Those of them that belong to the prompt, where images may have places.
    pub(crate) prompt: &'a [u32],
    /// Where they begin.
    pub(crate) start: Start,
    /// Whether another pass follows, which reads this one's cache.
    pub(crate) more: bool,
}

impl Pass<'_> {
    /// Positions before it that passes had.
    pub(super) fn kept(&self) -> usize {
        self.start.position - self.start.absent
    }
}

/// Where a run stands.
#[derive(Clone)]
pub(super) struct State<T = f64> {
    pub(super) patches: Option<Patches<T>>,
    pub(super) features: Vec<Tracked<T>>,
    pub(super) stream: Option<Stream<T>>,
    table: Option<RopeTable<T>>,
    pub(super) cache: KvCache<T>,
}

/// What a phase of a run starts from.
pub(super) struct Flow {
    patches: Option<Tracked<f64>>,
    features: Vec<Tracked<f64>>,
    stream: Option<Tracked<f64>>,
}

impl State {
    /// Goes back to before a layer whose pass began at position `first`.
    pub(super) fn back_to(&mut self, layer: usize, stream: Option<Stream<f64>>, first: usize) {
        self.stream = stream;
        let mut cache = KvCache::new(self.cache.layers());
        cache.adopt(layer, &self.cache, first);
        self.cache.adopt(layer, &cache, first);
    }

    /// The same with the cache of one layer alone, up to position `first`.
    pub(super) fn only(&self, layer: usize, first: usize) -> Self {
        let mut cache = KvCache::new(self.cache.layers());
        cache.adopt(layer, &self.cache, first);
        State { patches: None, features: Vec::new(), stream: self.stream.clone(), table: self.table.clone(), cache }
    }

    /// Goes on from one of the streams that a run, if it draws its errors, may have saved as this one, or have made of parts that were
    /// saved and are known to half a step alone.
    pub(super) fn draw_saved(&mut self, contract: &RoundingContract) {
        let stored = self.stream.as_ref().map(|stream| stream.stored.clone()).filter(|_| contract.mode.draws());
        match stored {
            Some(stored) if saved_as(contract, &stored.value).is_some() => {
                self.jump(&stored.value, contract, false);
            }
            Some(stored) if contract.saved != Storage::Real => {
                self.stream = Some(stored.strayed(contract.mode).into());
            }
            _ => {}
        }
    }

    pub(super) fn flow(&self) -> Flow {
        let plain = |x: &Tracked<f64>| Tracked::plain(x.value.clone());
        Flow {
            patches: self.patches.as_ref().map(|patches| plain(&patches.stream)),
            features: self.features.iter().map(plain).collect(),
            stream: self.stream.as_ref().map(|stream| plain(&stream.stored)),
        }
    }

    /// Goes on from where another run is; rotation tables are its own.
    pub(super) fn follow(&mut self, flow: &Flow) {
        if let (Some(own), Some(stream)) = (&mut self.patches, &flow.patches) {
            own.stream.clone_from(stream);
        }
        self.features.clone_from(&flow.features);
        self.stream = flow.stream.clone().map(Stream::from);
    }
}

impl<T: Real> State<T> {
    pub(super) fn new(model: &Decoder<'_>) -> Self {
        let cache = KvCache::new(model.config().num_hidden_layers);
        State { patches: None, features: Vec::new(), stream: None, table: None, cache }
    }

    /// Forgets what was read after so many positions.
    pub(super) fn truncate(&mut self, kept: usize) {
        self.cache.truncate(kept);
    }

    /// Goes on from the residual stream of a candidate that rounds as a contract says, with its errors or without.
    pub(super) fn jump(&mut self, stream: &Array2<f64>, contract: &RoundingContract, bounds: bool) {
        let saved = saved_as(contract, stream).unwrap_or(Storage::Real);
        let Tracked { value, error } =
            before_saved(stream, (contract.activations, Rounding { storage: saved, mode: contract.mode }), bounds);
        self.stream = Some(Tracked { value: value.mapv(T::of), error }.into());
    }

    pub(super) fn advance(
        &mut self,
        model: &Decoder<'_>,
        phase: Phase,
        pass: Pass<'_>,
        run: &mut Run<'_, T>,
    ) -> Result<(), Error> {
        let pixels = |which| {
            let media = model.media().and_then(|media| media.at(pass.start.position));
            let media = media.expect("a pass through the tower has something to see");
            media.passes().nth(which).expect("there are as many passes").1
        };
        let tower = |which| model.tower(pass.start.position, which).expect("what sees has a tower");
        match phase {
            Phase::Patches(which) => self.patches = Some(tower(which).embed(pixels(which), run)?),
            Phase::TowerLayer(which, layer) => {
                let patches = self.patches.as_mut().expect("a pass has a start");
                patches.stream = tower(which).layer(layer, patches, &pixels(which).grids, run)?;
            }
            Phase::Features(which) => {
                let patches = self.patches.take().expect("a pass has a start");
                self.features.push(tower(which).project(&patches.stream, &pixels(which).grids, run)?);
            }
            Phase::Start => {
                let embedded = model.embed(pass.tokens, pass.start.position, run)?;
                let features = std::mem::take(&mut self.features);
                // A run that begins in between has seen nothing, and goes on from a stream that has.
                let first = pass.start.position;
                let unseen = features.is_empty() && model.media().is_some_and(|media| media.at(first).is_some());
                let stream =
                    if unseen { embedded } else { model.scatter((first, pass.prompt), embedded, &features, run)? };
                self.stream = Some(match model.hidden(first, pass.tokens.len()) {
                    Some(hidden) => model.entered(first, stream, &hidden, run)?,
                    None => stream.into(),
                });
                let model = model.of_call(pass.start.position);
                self.table = Some(model.rope_table(pass.start.rotated, pass.tokens.len(), run));
            }
            Phase::Layer(layer) => {
                let stream = self.stream.take().expect("a pass has a start");
                let own = model.table_of(layer, pass.start.position, (pass.start.rotated, pass.tokens.len()), run);
                let table = own.as_ref().or(self.table.as_ref()).expect("a pass has a start");
                self.stream = Some(model.layer(layer, &stream, table, &mut self.cache, run)?);
            }
            Phase::Head => {
                model.head(self.stream.as_ref().expect("a pass has a start"), run)?;
            }
        }
        Ok(())
    }
}
