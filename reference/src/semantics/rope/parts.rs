//! Which channels rotate where, of what is said of attention and of the indexer.

use super::{RopePair, RopePart};
use crate::semantics::{IndexRotated, Semantics};

impl Semantics {
    /// Which channels of a head rotate in attention.
    pub fn part_of_attention(&self) -> RopePart {
        self.attention_rope_part.unwrap_or(self.rope_part)
    }

    /// Which channels of an index head rotate, and which of them form a pair.
    pub fn rotation_of_index(&self) -> (RopePart, RopePair) {
        match self.index_rotated {
            IndexRotated::AsAll => (self.rope_part, self.rope_pair),
            IndexRotated::Last => (RopePart::Last, self.rope_pair),
            IndexRotated::Interleaved => (self.rope_part, RopePair::Interleaved),
        }
    }
}
