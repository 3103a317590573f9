//! `parity diagnose`: which known mistake makes a dump what it is.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;

use super::outcome::Outcome;
use super::progress::bars;
use crate::commands::options::{DumpOptions, Reporting};
use crate::diagnose::diagnosis::{Diagnosis, Explained, Fitted};
use crate::failure::Failure;
use crate::judge::verdict::{SiteReport, Verdict};
use crate::report::figures::{apart, counted, numbered};
use crate::report::finding::suspicion;
use crate::report::output::Output;
use crate::report::place::of_step;
use crate::session::diagnose::diagnose;
use crate::session::dumped::{Dumped, open_dump};
use crate::session::model::Model;

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Diagnose {
    /// A folder in the hub's format, or a built-in case.
    pub model: String,
    /// A .safetensors, .npz or .pt file, or a folder of those or of .npy files.
    pub dump: PathBuf,
    #[command(flatten)]
    given: DumpOptions,
    #[command(flatten)]
    reporting: Reporting,
}

impl Diagnose {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let (json, output) = self.reporting.begin(output)?;
        let model = Model::open(&self.model)?;
        let requests = Dumped::of(open_dump(Some(&self.dump), &model)?, &self.given.given(), &model)?;
        let mut diagnoses = Vec::with_capacity(requests.len());
        for dumped in &requests {
            if let (number, 2..) = dumped.request {
                output.say(&format!("request {number}"));
            }
            diagnoses.push(diagnosed(&model, dumped, output)?);
        }
        let told = match &diagnoses[..] {
            [diagnosis] => serde_json::json!({ "schema": 1, "diagnosis": diagnosis }),
            all => serde_json::json!({ "schema": 1, "diagnoses": all }),
        };
        json.write(&told)?;
        let right = |diagnosis: &Diagnosis| {
            diagnosis.explained.is_empty() && diagnosis.unexplained.is_none() && diagnosis.suspicious.is_empty()
        };
        Ok(if diagnoses.iter().all(right) { Outcome::Good } else { Outcome::Fault })
    }
}

/// One request's diagnosis, which is told.
fn diagnosed(model: &Model, dumped: &Dumped, output: Output) -> Result<Diagnosis, Failure> {
    if let Some(note) = &dumped.known.coarser {
        output.say(note);
    }
    let diagnosis = diagnose(model, dumped, &mut bars(output))?;
    output.say(&told(&diagnosis));
    Ok(diagnosis)
}

/// The diagnosis for reading.
fn told(diagnosis: &Diagnosis) -> String {
    let mut text = String::new();
    for explained in &diagnosis.explained {
        text += &mistake(explained);
    }
    match &diagnosis.unexplained {
        None if !diagnosis.suspicious.is_empty() => {
            text += "no fault: rounding can make each of these values, but not so many, or not all in one direction\n";
            for site in &diagnosis.suspicious {
                let _ = writeln!(text, "suspicious   {}: {}", of_step(site.step, site.site), suspicion(site));
            }
        }
        None if diagnosis.explained.is_empty() => {
            text += "no fault under the local lens: every operator gives what it must of its own inputs\n";
        }
        None => text += "nothing is left unexplained\n",
        Some(fault) => {
            let _ = writeln!(text, "left that no known mistake explains: {}", counted(diagnosis.left, "fault"));
            text += &place(fault);
            for sentence in &diagnosis.pattern {
                let _ = writeln!(text, "  {sentence}");
            }
        }
    }
    text
}

fn mistake(explained: &Explained) -> String {
    let mut text = place(&explained.fault);
    if !explained.off.is_empty() {
        let _ = writeln!(text, "off          {}", explained.off.join("; "));
    }
    let _ = writeln!(text, "mistake      {} ({})", explained.name, explained.way);
    let _ = writeln!(text, "             {}", explained.about);
    let _ = writeln!(text, "right        {}", explained.right);
    if let Some(Fitted { parameter, fit, configured }) = &explained.fitted {
        let said = if configured.is_finite() {
            format!("the configuration says {}", short(*configured))
        } else {
            "the model has none".into()
        };
        let _ = writeln!(text, "fitted       {parameter} is {fit}, {said}");
    }
    if !explained.layers.is_empty() {
        let what = if explained.is_local { " alone" } else { ", all that can tell" };
        let _ = writeln!(text, "holds in     {}{what}", numbered("layer", &explained.layers));
    }
    if let Some([before, under]) = explained.reproduced {
        let _ = writeln!(
            text,
            "reproduces   {} of the site's {} values bit for bit ({}), without it {}",
            under.equal,
            under.count,
            percent(under.equal, under.count),
            before.equal
        );
    }
    if explained.fits.1 > 0 {
        let (right, all) = explained.fits;
        let _ =
            writeln!(text, "fit          {right} of {all} comparisons of the layer are within their bounds under it");
    }
    if !explained.equivalent.is_empty() {
        let _ = writeln!(text, "as good      {}", explained.equivalent.join(", "));
    }
    let of = if explained.fault.verdict == Verdict::Suspicious { "suspicious site" } else { "fault" };
    let _ = writeln!(text, "leaves       {}\n", counted(explained.left, of));
    text
}

/// A number as people write it: 1e-6, not 0.000001.
fn short(value: f64) -> String {
    if (1e-3..1e6).contains(&value.abs()) { value.to_string() } else { format!("{value:e}") }
}

fn percent(part: usize, of: usize) -> String {
    format!("{:.1} %", 100.0 * part as f64 / of.max(1) as f64)
}

fn place(fault: &SiteReport) -> String {
    if fault.verdict == Verdict::Suspicious {
        return format!("suspicious   {}: {}\n", of_step(fault.step, fault.site), suspicion(fault));
    }
    let mut text = format!("first fault  {}", of_step(fault.step, fault.site));
    if let Some(worst) = &fault.worst {
        let [candidate, reference] = apart(worst.candidate, worst.reference);
        let _ = write!(text, " at {:?}: {candidate}, expected {reference} ± {:.1e}", worst.index, worst.bound);
    }
    if let Some(note) = &fault.note {
        let _ = write!(text, ": {note}");
    }
    text + "\n"
}
