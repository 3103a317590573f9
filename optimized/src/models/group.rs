//! A model that ranks share under tensor parallelism: what `reference/src/models/group.rs` computes, under its contract `PARITY`
//! with so many ranks.
//!
//! Each rank is a decoder with its part of the weights, on a stream and in a thread of its own, and adds what goes into the
//! residual stream to the others' parts.

mod shown;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use half::bf16;
use reference::contract::{Config, RankWeights, Ranks, Semantics, Weights};

use self::shown::Shown;
use super::cache::Cache;
use super::capture::Capture;
use super::decoder::Decoder;
use super::rank::Rank;
use crate::communicator::Communicator;
use crate::communicator::members::Member;
use crate::device::Gpu;
use crate::error::Error;
use crate::tensor::Matrix;

/// R ranks of a model.
#[derive(Debug)]
pub struct Group {
    config: Config,
    ranks: Ranks,
    parts: Vec<Part>,
}

/// One of them.
#[derive(Debug)]
struct Part {
    decoder: Decoder,
    communicator: Arc<dyn Communicator>,
}

impl Group {
    /// Copies each rank's part of a model's weights to its device; `progress` is told of each layer of each rank. Of a model that
    /// sees, it is the text model.
    pub fn load(
        members: Vec<Member>,
        ranks: Ranks,
        (config, semantics): (&Config, &Semantics),
        weights: &dyn Weights,
        mut progress: impl FnMut(),
    ) -> Result<Self, Error> {
        let of_text = Config { vision: None, ..config.clone() };
        let own = RankWeights::of_all(&of_text, ranks, weights);
        let load = |(Member { gpu, communicator }, own): (Member, &RankWeights<'_>)| {
            let rank = Rank::new(&of_text, &ranks, Arc::clone(&communicator));
            let config = ranks.config_of(&of_text, communicator.rank());
            let decoder = Decoder::load_rank(gpu, (&config, semantics), own, rank, &mut progress)?;
            Ok(Part { decoder, communicator })
        };
        let parts = members.into_iter().zip(&own).map(load).collect::<Result<_, Error>>()?;
        Ok(Group { config: of_text.under(semantics), ranks, parts })
    }

    /// The first rank's device.
    pub fn gpu(&self) -> &Gpu {
        self.parts[0].decoder.gpu()
    }

    /// An empty cache for so many tokens for each rank.
    pub fn caches(&self, positions: usize) -> Result<Vec<Cache>, Error> {
        self.parts.iter().map(|part| part.decoder.cache(positions)).collect()
    }

    /// Logits of `tokens`, which follow those in the caches: of each rank those of its tokens of the vocabulary \[T, V/R\].
    pub fn forward(
        &self,
        tokens: &[u32],
        caches: &mut [Cache],
        capture: Option<&mut dyn Capture>,
    ) -> Result<Vec<Matrix<bf16>>, Error> {
        let mut shown: Vec<Shown> = self.parts.iter().map(|_| Shown::default()).collect();
        let looks = capture.is_some();
        let parts = self.parts.iter().zip(caches).zip(&mut shown);
        let work = parts.map(|((part, cache), shown)| {
            move || {
                let capture = looks.then_some(shown as &mut dyn Capture);
                part.decoder.forward(tokens, &[], cache, capture)
            }
        });
        let logits = self.together(work)?;
        if let Some(capture) = capture {
            shown::show((&self.config, &self.ranks), shown, capture);
        }
        Ok(logits)
    }

    /// Does each rank's work in a thread of its own. Where one fails, all stop.
    fn together<T: Send, W: FnOnce() -> Result<T, Error> + Send>(
        &self,
        work: impl Iterator<Item = W>,
    ) -> Result<Vec<T>, Error> {
        let stop = || self.parts.iter().for_each(|part| part.communicator.abort());
        let done: Vec<Result<T, Error>> = thread::scope(|scope| {
            let threads: Vec<_> = work.map(|work| scope.spawn(|| unless_stopped(work, &stop))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        });
        // Who waited for another knows nothing of its reasons.
        let (waited, others): (Vec<_>, Vec<_>) =
            done.into_iter().partition(|done| matches!(done, Err(Error::Stopped { .. })));
        others.into_iter().chain(waited).collect()
    }

    /// The last row's logits, of the whole vocabulary.
    pub fn last_row(&self, logits: &[Matrix<bf16>]) -> Result<Vec<f32>, Error> {
        let rows = self.parts.iter().zip(logits).map(|(part, logits)| part.decoder.last_row(logits));
        Ok(rows.collect::<Result<Vec<_>, Error>>()?.concat())
    }
}

/// Does work, and stops the group where that fails or panics.
fn unless_stopped<T>(work: impl FnOnce() -> Result<T, Error>, stop: &dyn Fn()) -> Result<T, Error> {
    struct Stops<'s>(Option<&'s dyn Fn()>);
    impl Drop for Stops<'_> {
        fn drop(&mut self) {
            self.0.iter().for_each(|stop| stop());
        }
    }
    let mut stops = Stops(Some(stop));
    let done = work()?;
    stops.0 = None;
    Ok(done)
}
