//! What values do not tell of names that nobody knows: from a fault on, they are near nothing that the model computes.

use fixtures::names::families::{Taken, Told};
use fixtures::names::sited::Sited;
use reference::Site;
use reference::config::Config;

use super::dumped::Dumped;
use crate::report::figures::counted;

/// Of a dump whose names are told by values: that more of its tensors are as wide as the stream, or as the vocabulary, in as many rows,
/// and are near nothing behind the last site that is told.
pub(super) fn untold(dumped: &Dumped, config: &Config) -> Option<String> {
    let dump = &dumped.values;
    let mut unsure = dump.told().iter().filter(|told| told.taken == Taken::Not);
    if let Some(Told { from, meant, apart, .. }) = unsure.next() {
        return Some(format!(
            "{from} is of no name that is known, and nearer to {meant} than to anything else, but off by {apart:.0e} of its size, as if a \
             fault were there; say by --names FILE what it is, or leave it out"
        ));
    }
    if dump.told().iter().all(|told| told.taken == Taken::Beside) {
        return None;
    }
    let last = dump.sites().filter(|at| at.step == 0).map(|at| at.site).max()?;
    let count = dump.reading().unknown.iter().filter(|name| is_of_stream(dump, name, config)).count();
    (last < Site::FinalNorm && count > 0).then(|| {
        format!(
            "names are told by values, and behind {last} none is: {} of the model's width {} near nothing that the model \
             computes, as if a fault were there; say by --names FILE what they are",
            counted(count, "tensor"),
            if count == 1 { "is" } else { "are" }
        )
    })
}

/// Whether a tensor may be of the stream, of what is added to it, or logits, with a row for each token of the first call.
fn is_of_stream(dump: &Sited, name: &str, config: &Config) -> bool {
    let rows = dump.sizes().first().and_then(|size| size.rows);
    let Some(shape) = dump.dump().find(name).map(|entry| entry.shape) else { return false };
    let count: usize = shape.iter().product();
    let widths = [config.hidden_size, config.vocab_size];
    let width = shape.last().filter(|width| widths.contains(width));
    width.zip(rows).is_some_and(|(width, rows)| count == rows * width)
}
