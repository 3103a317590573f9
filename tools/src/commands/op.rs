//! `parity op`: an operator alone.

use std::path::PathBuf;

use clap::Args;
use fixtures::Tensor;
use fixtures::activations::manifest::Manifest;
use fixtures::activations::writer::DumpWriter;
use reference::ops::router::top_k;
use reference::{RoundingContract, Storage};

use super::outcome::Outcome;
use crate::commands::options::TableOptions;
use crate::failure::Failure;
use crate::op::given::Given;
use crate::op::judged::{Judged, judged};
use crate::op::list::{OPERATORS, named};
use crate::op::signature::Signature;
use crate::report::output::Output;
use crate::report::rows::of_operator;
use crate::report::table::{number, with_header};

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Op {
    /// The operator; without it, all are listed with their inputs and outputs.
    pub name: Option<String>,
    /// A .safetensors, .npz, .npy or .pt file, or a folder of those, with the inputs by their names, and what a candidate made of
    /// them.
    #[arg(requires = "name")]
    pub file: Option<PathBuf>,
    /// A number that the operator takes, such as eps=1e-6; else it is the file's, a tensor of one value. May be given several
    /// times.
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// What the candidate rounds: `bf16`, or a profile such as `vllm_bf16`, then `,field=value`. Without it, it may round as
    /// any documented engine that has its type does.
    #[arg(long, value_name = "PRECISION")]
    pub precision: Option<String>,
    /// Write what the reference computes, in f64, to a dump: .safetensors, .npz, or a folder.
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
                .help(format!("parity op {name} FILE, with {}", ports(operator.signature.inputs))));
        };
        let given = Given::open(&operator.signature, file, &self.set)?;
        if let Some(out) = &self.out {
            let mut writer = DumpWriter::create(out)?;
            for made in operator.compute(&given, &RoundingContract::IDEAL)? {
                let (rows, columns) = made.value.dim();
                let tensor = match made.chosen {
                    Some(k) => Tensor::indices_of([rows, k], top_k(k, made.value.view())),
                    None => Tensor::stored(Storage::Real, [rows, columns], made.value),
                };
                writer.write(made.name, &tensor.expect("as many as the shape has"))?;
            }
            writer.finish(&Manifest::default())?;
        }
        let judged = judged(operator, &given, self.precision.as_deref())?;
        if judged.is_empty() && self.out.is_none() {
            let problem = format!("{}: nothing was compared: it has no output", file.display());
            return Err(Failure::new(problem).help(format!(
                "{name} makes {}; or write the reference's with --out FILE",
                ports(operator.signature.outputs)
            )));
        }
        tell(&operator.signature, &judged, output);
        let told: Vec<_> = judged.iter().map(Judged::json).collect();
        files.write_table(&told, || of_operator(name, &file.display().to_string(), &judged))?;
        Ok(if judged.iter().any(|judged| judged.found.faults > 0) { Outcome::Fault } else { Outcome::Good })
    }
}

fn tell(operator: &Signature, judged: &[Judged], output: Output) {
    if judged.is_empty() {
        return;
    }
    let mut table = with_header(&["output", "verdict", "values", "equal", "outside", "worst"]);
    for judged in judged {
        let found = &judged.found;
        let numbers = [found.count, found.equal, found.faults].map(number);
        let cells = [judged.name.into(), judged.verdict().into()].into_iter().chain(numbers);
        table.add_row(cells.chain([judged.worst().into()]));
    }
    let fails = judged.iter().any(|judged| judged.found.faults > 0);
    let ends = if fails { "FAIL" } else { "PASS" };
    let precision = &judged[0].precision;
    output.say(&format!("{}: {}\nrounded as {precision}\n\n{table}\n\n{ends}", operator.name, operator.equation));
}

fn list(output: Output) {
    for operator in OPERATORS.iter().map(|operator| &operator.signature) {
        let numbers = operator.numbers.iter().map(|(name, default, what)| {
            let default = default.map_or_else(|| "needed".to_owned(), |default| default.to_string());
            format!("\n  --set {name}={default}: {what}")
        });
        let numbers: String = numbers.collect();
        let (inputs, outputs) = (ports(operator.inputs), ports(operator.outputs));
        output
            .say(&format!("{}: {}\n  reads {inputs}\n  makes {outputs}{numbers}\n", operator.name, operator.equation));
        output.say("\n");
    }
}

fn ports(ports: &[(&str, &str)]) -> String {
    ports.iter().map(|(name, shape)| format!("{name} {shape}")).collect::<Vec<String>>().join(", ")
}
