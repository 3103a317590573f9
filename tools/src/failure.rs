//! What stops the program with exit code 2: bad usage, unreadable input, nothing compared.

use miette::Diagnostic;

/// A failure, and what to do about it.
#[derive(Debug, Clone, thiserror::Error, Diagnostic)]
#[error("{problem}")]
pub struct Failure {
    problem: String,
    #[help]
    help: Option<String>,
}

impl Failure {
    /// What was expected, what was found, and where.
    pub fn new(problem: impl Into<String>) -> Self {
        Failure { problem: problem.into(), help: None }
    }

    /// All of them as one, if there are any; what to do is the first's.
    pub fn of_all(failures: impl IntoIterator<Item = Failure>) -> Result<(), Self> {
        let mut failures = failures.into_iter();
        let Some(mut all) = failures.next() else { return Ok(()) };
        for failure in failures {
            all.problem = format!("{}\n{}", all.problem, failure.problem);
        }
        Err(all)
    }

    /// What to do, if that is known.
    pub fn advice(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// And what to do.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl From<reference::Error> for Failure {
    fn from(error: reference::Error) -> Self {
        let failure = Failure::new(error.to_string());
        match error {
            reference::Error::Weight(weight) => {
                let damaged = || "the checkpoint is damaged: download or convert it again".to_owned();
                failure.help(weight.help.unwrap_or_else(damaged))
            }
            reference::Error::Contract(_) | reference::Error::Ended => failure,
        }
    }
}

impl From<reference::ContractError> for Failure {
    fn from(error: reference::ContractError) -> Self {
        reference::Error::from(error).into()
    }
}

impl From<reference::error::ParseError> for Failure {
    fn from(error: reference::error::ParseError) -> Self {
        Failure::new(error.to_string())
    }
}

impl From<fixtures::Error> for Failure {
    fn from(error: fixtures::Error) -> Self {
        Failure::new(error.to_string()).help(error.help())
    }
}

impl From<optimized::error::Error> for Failure {
    fn from(error: optimized::error::Error) -> Self {
        Failure::new(error.to_string())
    }
}
