//! Progress as bars on a terminal.

use indicatif::ProgressBar;

use crate::report::output::Output;
use crate::session::progress::Progress;

/// Shows what is told, a bar for each work.
pub(super) fn bars(output: Output) -> impl FnMut(Progress<'_>) {
    let mut bar: Option<ProgressBar> = None;
    move |told| match (told, &mut bar) {
        (Progress::Begins { what, steps }, bar) => *bar = Some(output.progress(steps, what)),
        (Progress::Left(steps), Some(bar)) => bar.set_length(bar.position() + steps as u64),
        (Progress::Step, Some(bar)) => bar.inc(1),
        (Progress::Place(place), Some(bar)) => bar.set_prefix(format!(", {place}")),
        (Progress::Ends, Some(bar)) => bar.finish_and_clear(),
        (Progress::Note(text), _) => output.note(text),
        (Progress::Left(_) | Progress::Step | Progress::Place(_) | Progress::Ends, None) => {}
    }
}
