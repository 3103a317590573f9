//! Work in a thread of its own, while Python's waits for it without the interpreter's lock and looks for signals.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::thread::Builder;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tools::failure::Failure;
use tools::session::progress::{Progress, Watcher};

use crate::error::raised;

/// How often signals are looked for.
const EVERY: Duration = Duration::from_millis(20);

/// As much as the main thread of a program has.
const STACK: usize = 8 << 20;

/// The process whose threads share the work; a process that was forked from it has none of them, and would wait for ever.
static OWNER: OnceLock<u32> = OnceLock::new();

/// With what work that is to stop leaves its thread, from within a step that it tells of.
struct Stopped;

type Answer<T> = Result<Result<T, Failure>, Box<dyn Any + Send>>;

/// What work gives. A signal whose handler raises, as Ctrl-C does, stops it at its next step, and is raised once it has
/// stopped; a second one is raised at once.
pub(crate) fn wait<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&mut Watcher<'_>) -> Result<T, Failure> + Send + 'static,
) -> PyResult<T> {
    if *OWNER.get_or_init(process::id) != process::id() {
        let problem = "this process was forked from one that had used parity, whose threads are not in it";
        let help = "start processes anew, as multiprocessing.get_context(\"spawn\") does";
        return Err(raised(py, &Failure::new(problem).help(help)));
    }
    let (stop, (tell, mut told)) = (Arc::new(AtomicBool::new(false)), channel());
    let is_stopped = Arc::clone(&stop);
    let begun = Builder::new().name("parity".into()).stack_size(STACK).spawn(move || {
        let mut watch = |_: Progress<'_>| {
            if is_stopped.load(Ordering::Relaxed) {
                resume_unwind(Box::new(Stopped));
            }
        };
        // Whoever waits may have gone.
        let _ = tell.send(catch_unwind(AssertUnwindSafe(|| work(&mut watch))));
    });
    begun.map_err(|error| PyRuntimeError::new_err(format!("no thread can be started: {error}")))?;
    let mut interrupt: Option<PyErr> = None;
    loop {
        if let Some(answer) = py.detach(|| next(&mut told)) {
            return match (interrupt, answer) {
                (Some(interrupt), _) => Err(interrupt),
                (None, Ok(answer)) => answer.map_err(|failure| raised(py, &failure)),
                (None, Err(panic)) => resume_unwind(panic),
            };
        }
        if let Err(signal) = py.check_signals() {
            stop.store(true, Ordering::Relaxed);
            if interrupt.replace(signal).is_some() {
                return Err(interrupt.expect("just put there"));
            }
        }
    }
}

/// The answer, if it comes within a while.
fn next<T>(told: &mut Receiver<Answer<T>>) -> Option<Answer<T>> {
    match told.recv_timeout(EVERY) {
        Ok(answer) => Some(answer),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => unreachable!("the thread catches what could end it without an answer"),
    }
}
