//! What is done when the program is asked to stop.

use std::thread;

use fixtures::whole::unfinished::abandon_all;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::exit;

use crate::failure::Failure;

/// From now on, an interrupt (SIGINT) or a request to end (SIGTERM) removes what is unfinished and ends the program, with
/// the exit code by which shells tell of a signal: 128 and its number.
pub fn remove_unfinished_when_stopped() -> Result<(), Failure> {
    let mut signals = Signals::new([SIGINT, SIGTERM])
        .map_err(|error| Failure::new(format!("signals cannot be received: {error}")))?;
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            abandon_all();
            exit(128 + signal);
        }
    });
    Ok(())
}
