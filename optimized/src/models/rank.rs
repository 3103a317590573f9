//! A decoder's place in a group of ranks.

use std::ops::Range;
use std::sync::Arc;

use half::bf16;
use reference::contract::{Config, Embedding, Ranks, RoundingContract};

use crate::communicator::Communicator;
use crate::device::Gpu;
use crate::error::Error;
use crate::tensor::Matrix;

/// Which part of a model a decoder has, and how it adds that to the others'.
#[derive(Debug)]
pub(super) struct Rank {
    communicator: Arc<dyn Communicator>,
    /// The experts that it has.
    pub(super) experts: Range<usize>,
    /// The tokens whose embeddings it has, and whose logits it computes.
    vocabulary: Range<usize>,
    /// Tokens of the model.
    all_tokens: usize,
    /// How many channels of all ranks' queries and keys norms count.
    pub(super) divisors: [usize; 2],
}

impl Rank {
    /// That of a communicator in a group that shares a model.
    pub(super) fn new(config: &Config, ranks: &Ranks, communicator: Arc<dyn Communicator>) -> Self {
        let rank = communicator.rank();
        Rank {
            experts: ranks.part(config.num_local_experts, rank),
            vocabulary: ranks.part(config.vocab_size, rank),
            all_tokens: config.vocab_size,
            divisors: [config.query_width(), config.key_width() * ranks.replicas()],
            communicator,
        }
    }

    /// The sum of what all ranks computed.
    pub(super) fn sum(&self, gpu: &Gpu, part: Matrix<bf16>) -> Result<Matrix<bf16>, Error> {
        self.communicator.all_reduce(gpu, part)
    }

    /// The same in f32.
    pub(super) fn sum_f32(&self, gpu: &Gpu, part: Matrix<f32>) -> Result<Matrix<f32>, Error> {
        self.communicator.all_reduce_f32(gpu, part)
    }

    /// Tokens as rows of the rank's part of the embedding, with a row of zeros below it for those that other ranks have.
    ///
    /// C1 and C2: those of `embedding`.
    pub(super) fn rows_of(&self, tokens: &[u32]) -> Result<Vec<u32>, Error> {
        Embedding::under(&RoundingContract::PARITY).check(tokens, self.all_tokens)?;
        let row = |token: &u32| {
            let token = *token as usize;
            let own =
                if self.vocabulary.contains(&token) { token - self.vocabulary.start } else { self.vocabulary.len() };
            u32::try_from(own).expect("at most the vocabulary")
        };
        Ok(tokens.iter().map(row).collect())
    }
}
