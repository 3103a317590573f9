//! `parity op`: an operator alone.

use std::path::PathBuf;

use clap::Args;
use fixtures::Tensor;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::writer::DumpWriter;
use reference::Storage;

use super::outcome::Outcome;
use crate::commands::options::TableOptions;
use crate::failure::Failure;
use crate::op::given::{Given, listed};
use crate::op::judged::{Judged, judged};
use crate::op::list::{OPERATORS, named};
use crate::op::made::Made;
use crate::op::signature::{Default, Number, Signature};
use crate::report::output::Output;
use crate::report::rows::of_operator;
use crate::report::table::{number, with_header};
use crate::session::precision::named as contract_of;

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Op {
    /// The operator; without it, all are listed with their inputs and outputs.
    pub name: Option<String>,
    /// A .safetensors, .npz, .npy, .pt, .pkl or .json file, or a folder of those but JSON, with the inputs by their names, and what a candidate
    /// made of them.
    #[arg(requires = "name")]
    pub file: Option<PathBuf>,
    /// A number that the operator takes, such as eps=1e-6; else it is the file's, a tensor of one value. May be given several
    /// times.
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// What the candidate rounds: `bf16`, or a profile such as `vllm_bf16`, then `,field=value`. Without it, it may round as
    /// any documented engine that has its type does, but take nothing in a narrower type.
    #[arg(long, value_name = "PRECISION")]
    pub precision: Option<String>,
    /// Write what the reference computes, in f64, to a dump: .safetensors, .npz, or a folder; after that what the file
    /// has of outputs, if any, is judged all the same.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    table: TableOptions,
}

impl Op {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let (files, output) = self.table.begin(output)?;
        let Some(name) = &self.name else {
            list(output);
            return Ok(Outcome::Good);
        };
        let operator = named(name)?;
        let Some(file) = &self.file else {
            return Err(Failure::new(format!("{name}: no file of its inputs is given"))
                .help(format!("parity op {name} FILE, with {}", listed(operator.signature.inputs))));
        };
        let given = Given::open(&operator.signature, file, &self.set)?;
        let writer = self.out.as_deref().map(DumpWriter::create).transpose()?;
        let made = operator.compute(&given)?;
        let precision = self.precision.as_deref().map(|text| Ok::<_, Failure>((text.to_owned(), contract_of(text)?)));
        let judged = judged(&made, &given, precision.transpose()?)?;
        if let Some(writer) = writer {
            write(writer, &made)?;
        }
        if judged.is_empty() && self.out.is_none() {
            let problem = format!("{}: nothing was compared: it has no output", file.display());
            return Err(Failure::new(problem).help(format!(
                "{name} makes {}; or write the reference's with --out FILE",
                listed(operator.signature.outputs)
            )));
        }
        tell(&operator.signature, &judged, output);
        let told: Vec<_> = judged.iter().map(Judged::json).collect();
        files.write_table(&told, || of_operator(name, &file.display().to_string(), &judged))?;
        Ok(if judged.iter().any(|judged| judged.found.faults > 0) { Outcome::Fault } else { Outcome::Good })
    }
}

/// Writes what the reference makes.
fn write(mut writer: DumpWriter, made: &[Made]) -> Result<(), Failure> {
    for made in made {
        let tensor = match &made.chosen {
            Some(chosen) => Tensor::indices_of(dims(chosen.columns.dim()), chosen.columns.iter().copied()),
            None => Tensor::stored(Storage::Real, dims(made.value.dim()), made.value.iter().copied()),
        };
        writer.write(made.name, &tensor.expect("as many as the shape has"))?;
    }
    Ok(writer.finish(&Manifest::default())?)
}

fn dims((rows, columns): (usize, usize)) -> Vec<usize> {
    vec![rows, columns]
}

fn tell(operator: &Signature, judged: &[Judged], output: Output) {
    if judged.is_empty() {
        return;
    }
    let mut table = with_header(&["output", "verdict", "values", "equal", "outside", "worst"]);
    for judged in judged {
        let found = &judged.found;
        let numbers = [found.count, found.equal, found.faults].map(number);
        let cells = [judged.name.to_owned(), judged.verdict.to_string()].map(Into::into).into_iter().chain(numbers);
        table.add_row(cells.chain([judged.worst().into()]));
    }
    let fails = judged.iter().any(|judged| judged.found.faults > 0);
    let ends = if fails { "FAIL" } else { "PASS" };
    let mut precisions: Vec<&str> = judged.iter().map(|judged| judged.precision.as_str()).collect();
    precisions.dedup();
    let precisions = precisions.join(" and ");
    output.say(&format!("{}: {}\nrounded as {precisions}\n\n{table}\n\n{ends}", operator.name, operator.equation));
}

fn list(output: Output) {
    for operator in OPERATORS.iter().map(|operator| &operator.signature) {
        let numbers = operator.numbers.iter().map(|Number { name, default, what }| match default {
            Default::Needed => format!("\n  --set {name}=NUMBER: {what}"),
            Default::Absent => format!("\n  --set {name}=NUMBER (if any): {what}"),
            Default::Is(value) => format!("\n  --set {name}={value}: {what}"),
            Default::No => format!("\n  --set {name}=0: {what}"),
        });
        let numbers: String = numbers.collect();
        let (inputs, outputs) = (listed(operator.inputs), listed(operator.outputs));
        output
            .say(&format!("{}: {}\n  reads {inputs}\n  makes {outputs}{numbers}\n", operator.name, operator.equation));
        output.say("\n");
    }
}
