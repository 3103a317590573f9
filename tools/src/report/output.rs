//! Where results go: stdout for them, stderr for progress and notes.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::OnceLock;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::failure::Failure;

/// How much is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Output {
    /// Only results, no progress and no notes.
    pub quiet: bool,
    /// Results go to stderr, because a file of theirs is stdout.
    pub aside: bool,
}

/// Why a result did not reach standard output, of which the process has one.
static LOST: OnceLock<String> = OnceLock::new();

impl Output {
    /// A bar of `length` steps, hidden where nobody looks.
    pub fn progress(self, length: usize, what: &str) -> ProgressBar {
        let target = if self.quiet || !io::stderr().is_terminal() {
            ProgressDrawTarget::hidden()
        } else {
            ProgressDrawTarget::stderr()
        };
        let style = ProgressStyle::with_template("{msg:28} {bar:40} {pos}/{len} {elapsed} (left {eta}){prefix}");
        let bar = ProgressBar::with_draw_target(Some(length as u64), target);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        bar
    }

    /// Says something on stderr.
    pub fn note(self, text: &str) {
        if !self.quiet {
            say_aside(text);
        }
    }

    /// The same, with results on stderr if stdout is `taken`.
    #[must_use]
    pub fn beside(self, taken: bool) -> Self {
        Output { aside: self.aside || taken, ..self }
    }

    /// Says a result on stdout, if that is free. What cannot be written there is remembered for [`Output::finish`].
    pub fn say(self, text: &str) {
        let text = text.trim_end();
        if self.aside {
            say_aside(text);
        } else {
            keep(writeln!(anstream::stdout(), "{text}"));
        }
    }

    /// Refuses a success of which the results were lost.
    pub fn finish(self) -> Result<(), Failure> {
        keep(io::stdout().flush());
        LOST.get().map_or(Ok(()), |error| {
            Err(Failure::new(format!("standard output: cannot write: {error}"))
                .help("make room where it goes, or send it elsewhere: the results above are not complete"))
        })
    }

    /// Says why nothing came of it, on stderr.
    pub fn fail(self, failure: Failure) {
        say_aside(&format!("{:?}", miette::Report::new(failure)));
    }
}

/// Remembers the first error of standard output. A closed pipe is none: its reader has seen what it wanted to see.
fn keep(written: io::Result<()>) {
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        LOST.get_or_init(|| error.to_string());
    }
}

/// A line on stderr. If that cannot be written, there is nowhere left to say so.
fn say_aside(text: &str) {
    let _ = writeln!(anstream::stderr(), "{text}");
}
