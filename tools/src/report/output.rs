//! Where results go: stdout for them, stderr for progress and notes.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::Failure;

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    /// Only results, no progress and no notes.
    pub quiet: bool,
}

impl Output {
    /// A bar of `length` steps, hidden where nobody looks.
    pub fn progress(self, length: usize, what: &str) -> ProgressBar {
        let target = if self.quiet || !std::io::stderr().is_terminal() {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let style = ProgressStyle::with_template("{msg:28} {bar:40} {pos}/{len} {elapsed} (left {eta})");
        let bar = ProgressBar::with_draw_target(Some(length as u64), target);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }

    /// Says something on stderr.
    pub fn note(self, text: &str) {
        if !self.quiet {
            anstream::eprintln!("{text}");
        }
    }

    /// Says a result on stdout.
    pub fn say(self, text: &str) {
        // A closed pipe is the reader's choice, not a failure.
        let _ = writeln!(anstream::stdout(), "{}", text.trim_end());
    }

    /// Says why nothing came of it, on stderr.
    pub fn fail(self, failure: Failure) {
        anstream::eprintln!("{:?}", miette::Report::new(failure));
    }
}
