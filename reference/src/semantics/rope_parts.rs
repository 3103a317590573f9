//! Which channels rotate where, of what is said of attention and of the indexer.

use super::{RopePart, Semantics};

impl Semantics {
    /// Which channels of a head rotate in attention.
    pub fn part_of_attention(&self) -> RopePart {
        self.attention_rope_part.unwrap_or(self.rope_part)
    }

    /// Which channels of an index head rotate.
    pub fn part_of_index(&self) -> RopePart {
        match self.index_rope_part {
            RopePart::First => self.rope_part,
            RopePart::Last => RopePart::Last,
        }
    }
}
