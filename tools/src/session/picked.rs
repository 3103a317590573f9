//! Which tokens' logits a call kept, where it kept some: `logits_to_keep` of numbers keeps the rows at these.
//!
//! ```text
//! z = head of what goes into it        each row of the dump is nearest to one of z's: that token's
//! ```
//!
//! Without another sign they are the last ones, and as long as they are near to these nothing else is asked. Rows of tokens that follow
//! one another are what a head that reads the wrong ones gives, too: they stay the last ones, and are at fault.

use fixtures::activations::rows::Call;
use fixtures::names::at::At;
use fixtures::names::measure::Measure;
use fixtures::names::sited::Sited;
use ndarray::{Array2, s};
use reference::models::decoder::{Decoder, Stream};
use reference::ops::linear::{Linear, linear};
use reference::probe::NoProbe;
use reference::run::Run;
use reference::weights::{Weight, Weights};
use reference::{LayerSite, RoundingContract, Semantics, Site, Tracked};

use super::computed::{MOST_LOGITS, NEARER, off};
use super::generated::logits_of;
use super::model::Model;
use super::window::{Beside, are_one_run, rows_of};
use crate::failure::Failure;

/// The rows that the one call of one list kept for the head, if these are not its last ones.
pub(super) fn rows(
    values: &Sited,
    calls: &[Call],
    reading: (&Model, &Semantics),
) -> Result<Option<Vec<usize>>, Failure> {
    let [Call { batch: 1, kept: None, window: None, width, .. }] = calls else { return Ok(None) };
    let vocabulary = reading.0.checkpoint.config().vocab_size;
    let Some(logits) = logits_of(values, 0)? else { return Ok(None) };
    let kept = logits.len() / vocabulary.max(1);
    let is_plain = values.measure(At { step: 0, site: Site::Logits }) == Measure::Logits;
    if !is_plain
        || !(1..*width).contains(&kept)
        || width * vocabulary > MOST_LOGITS
        || logits.shape().last() != Some(&vocabulary)
    {
        return Ok(None);
    }
    let shown = Array2::from_shape_vec((kept, vocabulary), logits.values::<f64>()).expect("rows of one width");
    let Some(read) = Read::of(values, *width, reading.0)? else { return Ok(None) };
    let last = off(shown.view(), read.logits(width - kept, reading)?.view());
    if last <= NEARER {
        return Ok(None);
    }
    let tokens = Beside::new(shown.view(), read.logits(0, reading)?).tokens(kept, last);
    let is_picked = |rows: &Vec<usize>| rows.is_sorted_by(|one, next| one < next) && !are_one_run(rows);
    Ok(tokens.filter(is_picked))
}

/// What goes into the head, a row each token.
enum Read {
    Normed(Array2<f64>),
    Stream(Array2<f64>),
}

impl Read {
    fn of(values: &Sited, width: usize, model: &Model) -> Result<Option<Self>, Failure> {
        if let Some(rows) = rows_of(values, (0, width), Site::FinalNorm)? {
            return Ok(Some(Read::Normed(rows)));
        }
        let last = model.checkpoint.config().num_hidden_layers - 1;
        Ok(rows_of(values, (0, width), Site::Layer(last, LayerSite::Output))?.map(Read::Stream))
    }

    /// Logits of the tokens from one on.
    fn logits(&self, first: usize, (model, semantics): (&Model, &Semantics)) -> Result<Array2<f64>, Failure> {
        match self {
            Read::Normed(rows) => {
                let is_tied = model.checkpoint.config().tie_word_embeddings;
                let head = model.checkpoint.get(if is_tied { Weight::Embedding } else { Weight::LmHead });
                let (head, params) = (head.map_err(reference::Error::from)?, Linear::under(&RoundingContract::IDEAL));
                Ok(linear(&params, rows.slice(s![first.., ..]), &head).map_err(reference::Error::from)?)
            }
            Read::Stream(rows) => {
                let decoder = Decoder::new(model.checkpoint.config(), *semantics, &model.checkpoint)?;
                let stream = Stream::from(Tracked::plain(rows.slice(s![first.., ..]).to_owned()));
                Ok(decoder.head(&stream, &mut Run::new(RoundingContract::IDEAL, &mut NoProbe))?.value)
            }
        }
    }
}
