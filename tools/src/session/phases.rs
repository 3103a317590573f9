//! A run of the reference, phase by phase: what a phase leaves to those that follow it is a value, which can be kept.

use std::fmt;

use ndarray::{Array1, Array2, ArrayView1, Axis, s};
use reference::models::decoder::{Decoder, Stream};
use reference::ops::kv_cache::KvCache;
use reference::ops::rope::RopeTable;
use reference::probe::NoProbe;
use reference::run::Run;
use reference::{Error, Real, RoundingContract, Tracked};

/// A part of a call, which reads tokens that follow those of earlier calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// What the prompt shows, the embedding, and the rotation table.
    Start,
    /// A layer.
    Layer(usize),
    /// Final norm and head.
    Head,
}

/// Where a run stands.
pub(super) struct Standing<T> {
    cache: KvCache<T>,
    stream: Option<Stream<T>>,
    table: Option<RopeTable<T>>,
    last: Option<Array1<T>>,
}

/// What a phase leaves, by name.
pub(super) type Left<T> = Vec<(&'static str, Array2<T>)>;

impl Phase {
    /// Those of a call, in order.
    pub(super) fn of_call(model: &Decoder<'_>) -> impl Iterator<Item = Phase> + use<> {
        let layers = (0..model.config().num_hidden_layers).map(Phase::Layer);
        [Phase::Start].into_iter().chain(layers).chain([Phase::Head])
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Phase::Start => f.write_str("start"),
            Phase::Layer(layer) => write!(f, "layer-{layer}"),
            Phase::Head => f.write_str("head"),
        }
    }
}

impl<T: Real> Standing<T> {
    /// Before the first call.
    pub(super) fn new(model: &Decoder<'_>) -> Self {
        Standing { cache: KvCache::new(model.config().num_hidden_layers), stream: None, table: None, last: None }
    }

    /// The logits of the last token that was read.
    pub(super) fn last(&self) -> ArrayView1<'_, T> {
        self.last.as_ref().expect("a call has a head").view()
    }

    /// Runs a phase of a call that reads `tokens` from position `first` on.
    pub(super) fn advance(
        &mut self,
        model: &Decoder<'_>,
        phase: Phase,
        (first, tokens): (usize, &[u32]),
        run: &mut Run<'_, T>,
    ) -> Result<(), Error> {
        match phase {
            Phase::Start => {
                let features = model.features(first, run)?;
                let embedded = model.embed(tokens, first, run)?;
                self.stream = Some(model.scatter((first, tokens), embedded, &features, run)?.into());
                self.table = Some(model.of_call(first).rope_table(first, tokens.len(), run));
            }
            Phase::Layer(layer) => {
                let stream = self.stream.take().expect("a call has a start");
                let own = model.table_of(layer, first, (first, tokens.len()), run);
                let table = own.as_ref().or(self.table.as_ref()).expect("a call has a start");
                self.stream = Some(model.layer(layer, &stream, table, &mut self.cache, run)?);
            }
            Phase::Head => {
                let logits = model.head(self.stream.as_ref().expect("a call has a start"), run)?.value;
                self.last = Some(logits.row(logits.nrows() - 1).to_owned());
            }
        }
        Ok(())
    }

    /// What a phase has left, of a call from position `first` on.
    pub(super) fn left(&self, phase: Phase, first: usize) -> Left<T> {
        let mut left = Left::new();
        if phase == Phase::Head {
            left.push(("logits", self.last().to_owned().insert_axis(Axis(0))));
            return left;
        }
        let stream = self.stream.as_ref().expect("a call has a start");
        left.push(("stream", stream.stored.value.clone()));
        left.extend(stream.unrounded().map(|sum| ("unrounded", sum.clone())));
        if let Phase::Layer(layer) = phase {
            let new = |x: &Tracked<T>| x.value.slice(s![first.., ..]).to_owned();
            let kept = self.cache.layer(layer).into_iter();
            left.extend(kept.flat_map(|(keys, values)| [("keys", new(keys)), ("values", new(values))]));
            left.extend(self.cache.index(layer).map(|keys| ("index_keys", new(keys))));
        }
        left
    }

    /// Goes on as if a phase had been run that left this; `None` if something of it lacks.
    pub(super) fn take(
        &mut self,
        model: &Decoder<'_>,
        phase: Phase,
        (first, tokens): (usize, &[u32]),
        (contract, left): (RoundingContract, Left<T>),
    ) -> Option<()> {
        let find = |name: &str| left.iter().find(|(of, _)| *of == name).map(|(_, value)| value);
        if phase == Phase::Head {
            self.last = Some(find("logits")?.row(0).to_owned());
            return Some(());
        }
        self.stream = Some(Stream::of(Tracked::plain(find("stream")?.clone()), find("unrounded").cloned()));
        match phase {
            Phase::Layer(layer) => {
                let plain = |name| find(name).cloned().map(Tracked::plain);
                self.cache.append(layer, &plain("keys")?, &plain("values")?).ok()?;
                if let Some(keys) = plain("index_keys") {
                    self.cache.append_index(layer, &keys).ok()?;
                }
            }
            Phase::Start | Phase::Head => {
                let mut nobody = NoProbe;
                let table = model.of_call(first).rope_table(first, tokens.len(), &mut Run::new(contract, &mut nobody));
                self.table = Some(table);
            }
        }
        Some(())
    }
}
