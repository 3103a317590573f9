//! What is asked, and asking it.

use std::path::{Path, PathBuf};

use fixtures::whole;
use tools::compare::selection::Selection;
use tools::failure::Failure;
use tools::judge::lens::Lens;
use tools::report::demands::{Demands, Denied};
use tools::report::diagnosis::text;
use tools::session::asked::Asked;
use tools::session::diagnose::{diagnose_request, is_due};
use tools::session::dumped::{Dumped, Given};
use tools::session::model::Model;

use crate::candidate::Candidate;
use crate::report::Report;

/// A candidate next to a model's reference, and what is asked of it. Relative paths begin where the test runs, which is its
/// package's folder.
#[derive(Debug, Clone)]
#[must_use = "nothing is verified before `report` or `demand`"]
pub struct Verification {
    model: String,
    candidate: Candidate,
    given: Given,
    lenses: Vec<Lens>,
    layers: Option<String>,
    sites: Vec<String>,
    require: Vec<String>,
    deny: Vec<Denied>,
    html: Option<PathBuf>,
    diagnosed: bool,
}

/// The tokens that went into the candidate: ids, or a text as on the command line, `1,2,3` or `@file.json`.
#[derive(Debug, Clone)]
pub struct Tokens(String);

/// Puts a candidate next to the reference of a model: a folder in the hub's format, or a built-in case's name.
pub fn verify(model: impl AsRef<Path>, candidate: impl Into<Candidate>) -> Verification {
    Verification {
        model: model.as_ref().display().to_string(),
        candidate: candidate.into(),
        given: Given::default(),
        lenses: Vec::new(),
        layers: None,
        sites: Vec::new(),
        require: Vec::new(),
        deny: Vec::new(),
        html: None,
        diagnosed: false,
    }
}

impl Verification {
    /// What went in; a built-in case has its own prompt, and a dump may name one.
    pub fn tokens(mut self, tokens: impl Into<Tokens>) -> Self {
        self.given.tokens = Some(tokens.into().0);
        self
    }

    /// What the candidate rounds, such as `vllm_bf16`; found in the values if not given.
    pub fn precision(mut self, precision: &str) -> Self {
        self.given.precision = Some(precision.to_owned());
        self
    }

    /// The reading of the documents, `documents` or `released`, then `,field=value`.
    pub fn semantics(mut self, semantics: &str) -> Self {
        self.given.semantics = Some(semantics.to_owned());
        self
    }

    /// A JSON file that maps an engine's names to sites, beside those that ship.
    pub fn names(mut self, path: impl AsRef<Path>) -> Self {
        self.given.names = Some(path.as_ref().to_owned());
        self
    }

    /// Only this lens, and others that are named so.
    pub fn lens(mut self, lens: Lens) -> Self {
        self.lenses.push(lens);
        self
    }

    /// Only these layers: `3`, `3..7` (3 to 6), `..7` or `3..`.
    pub fn layers(mut self, layers: &str) -> Self {
        self.layers = Some(layers.to_owned());
        self
    }

    /// Only sites whose path fits this pattern, such as `layers.*.self_attn.*`, or another that is given so.
    pub fn sites(mut self, pattern: &str) -> Self {
        self.sites.push(pattern.to_owned());
        self
    }

    /// Operators that must be compared: a pattern, or `all`.
    pub fn require(mut self, pattern: &str) -> Self {
        self.require.push(pattern.to_owned());
        self
    }

    /// A verdict that counts as a fault, too.
    pub fn deny(mut self, verdict: Denied) -> Self {
        self.deny.push(verdict);
        self
    }

    /// A file for the report as a page, whether it passes or not.
    pub fn html(mut self, path: impl AsRef<Path>) -> Self {
        self.html = Some(path.as_ref().to_owned());
        self
    }

    /// Whether a failure says which mistake it is, too, which takes longer.
    pub fn diagnosed(mut self, diagnosed: bool) -> Self {
        self.diagnosed = diagnosed;
        self
    }

    /// The report. A fault is no error: bad arguments, unreadable input and nothing compared are.
    pub fn report(&self) -> Result<Report, Failure> {
        let (asked, model) = (self.asked()?, Model::open(&self.model)?);
        let dump = self.candidate.open(&self.given, &model)?;
        let report = Report::of(tools::session::verify::verify(&model, dump, &self.given, &asked, &mut |_| ())?);
        if let Some(path) = &self.html {
            whole::write(path, report.html().as_bytes())?;
        }
        Ok(report)
    }

    /// The report, which has no fault.
    ///
    /// # Panics
    ///
    /// With the report as on a terminal, where it fails; and with what to do, where there is no report.
    #[track_caller]
    pub fn demand(&self) -> Report {
        let report = self.report().unwrap_or_else(|failure| panic!("{}", told(&failure)));
        if report.passed() {
            return report;
        }
        let page = self.html.as_ref().map(|path| format!("\npage: {}", path.display())).unwrap_or_default();
        let diagnosis = if self.diagnosed { self.diagnosis() } else { Ok(String::new()) };
        let diagnosis = diagnosis.unwrap_or_else(|failure| format!("\n{}", told(&failure)));
        panic!("{report}{diagnosis}{page}");
    }

    /// Which mistakes explain what is wrong, request by request.
    fn diagnosis(&self) -> Result<String, Failure> {
        let model = Model::open(&self.model)?;
        let open = || self.candidate.open(&self.given, &model);
        let requests = Dumped::of(open()?, &self.given, &model)?;
        let mut found = Vec::with_capacity(requests.len());
        for dumped in &requests {
            if is_due(dumped, &found) {
                found.push(diagnose_request(&model, dumped, (&self.given, open), &mut |_| ())?);
            }
        }
        let texts: Vec<String> = found.iter().map(text).collect();
        Ok(texts.iter().flat_map(|text| ["\n\n", text.trim_end()]).collect())
    }

    fn asked(&self) -> Result<Asked, Failure> {
        let denied: Vec<_> = self.deny.iter().map(|denied| denied.verdict()).collect();
        Ok(Asked {
            lenses: self.lenses.clone(),
            selection: Selection::parse(self.layers.as_deref(), &self.sites)?,
            demands: Demands::parse(&self.require, &denied)?,
            detection: false,
            command: self.command(),
        })
    }

    /// The command that asks the same.
    fn command(&self) -> String {
        let Given { tokens, precision, semantics, names, .. } = &self.given;
        let names = names.as_ref().map(|path| path.display().to_string());
        let options = [("tokens", tokens), ("precision", precision), ("semantics", semantics), ("names", &names)];
        let options = options.iter().filter_map(|(name, value)| Some(format!(" --{name} {}", value.as_ref()?)));
        let options: String = options.collect();
        format!("parity verify {}{}{options}", self.model, self.candidate.typed())
    }
}

fn told(failure: &Failure) -> String {
    match failure.advice() {
        Some(advice) => format!("{failure}\nhelp: {advice}"),
        None => failure.to_string(),
    }
}

impl From<&str> for Tokens {
    fn from(text: &str) -> Self {
        Tokens(text.to_owned())
    }
}

impl From<&[u32]> for Tokens {
    fn from(ids: &[u32]) -> Self {
        Tokens(ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(","))
    }
}

impl From<&Vec<u32>> for Tokens {
    fn from(ids: &Vec<u32>) -> Self {
        ids.as_slice().into()
    }
}

impl<const N: usize> From<&[u32; N]> for Tokens {
    fn from(ids: &[u32; N]) -> Self {
        ids.as_slice().into()
    }
}
