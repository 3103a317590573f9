//! Which known mistake makes a candidate what it is.
//!
//! Reading order: [`catalogue`], the known mistakes; `trial`, the reference with one assumed, and what it leaves; `reach`,
//! in which layers and calls a change can be made; `share`, how many values are the twin's, and `reproduced`, whether these
//! are enough; `view`, the candidate as it is seen under one; `search`, what values tell of weights and parameters where no
//! known mistake explains them; `captured`, tensors that hold another site's values; `explain`, what explains a fault best,
//! with `networks`, what is another in one kind of them alone, and `choice`, which of several is the best; `chosen`, whose
//! choice a token has; [`diagnosis`], one fault after the other, `elsewhere`, what other faults have in common with it,
//! `displaced`, numbers that are off where there is no fault, and `refound`, the precision once a mistake is known.
//! [`detection`] asks the reverse of a dump: which mistakes it is free of.

pub mod catalogue;
mod captured;
mod choice;
mod chosen;
pub mod detection;
pub mod diagnosis;
mod displaced;
mod elsewhere;
mod explain;
pub mod lessons;
mod networks;
mod pattern;
#[cfg(feature = "lapack")]
mod rank;
mod reach;
mod refound;
mod reproduced;
mod search;
mod share;
mod sizes;
mod tokens;
mod trial;
mod view;
