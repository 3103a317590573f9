//! `parity prompt`: tokens that reach what a comparison has to see.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::outcome::Outcome;
use super::progress::bars;
use crate::commands::options::Reading;
use crate::compare::selection::Selection;
use crate::failure::Failure;
use crate::report::figures::counted;
use crate::report::json::JsonFile;
use crate::report::output::Output;
use crate::session::model::Model;
use crate::session::propose::reach::{Never, Short};
use crate::session::propose::{Proposal, Wish, propose};

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Propose {
    /// A folder in the hub's format, or a built-in case.
    pub model: String,
    /// Tokens of the prompt. Without it as many as the model needs: for every expert, for more blocks of keys than are
    /// chosen, for positions above 256; 4096 at most.
    #[arg(long, value_name = "N")]
    pub length: Option<usize>,
    /// Tokens that it begins with, such as those of a chat template: 1,2,3 or @file.json.
    #[arg(long, value_name = "START")]
    pub tokens: Option<String>,
    /// Another seed, other tokens.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Only experts of these layers: `3`, `3..7` (3 to 6), `..7` or `3..`; later layers are not run.
    #[arg(long, value_name = "RANGE")]
    pub layers: Option<String>,
    /// Where the tokens go, as JSON that `--tokens @FILE` reads; to standard output, if not given.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    #[command(flatten)]
    reading: Reading,
}

impl Propose {
    /// Does it.
    pub fn carry_out(&self, output: Output) -> Result<Outcome, Failure> {
        let file = JsonFile::begin(self.out.as_deref())?;
        let model = Model::open(&self.model)?;
        let wish = Wish {
            length: self.length,
            start: self.tokens.clone(),
            seed: self.seed,
            layers: Selection::parse(self.layers.as_deref(), &[])?,
        };
        let proposal = propose(&model, self.reading.of(&model)?, &wish, &mut bars(output))?;
        output.note(&told(&proposal));
        let tokens = json!({ "tokens": proposal.tokens });
        if self.out.is_none() {
            output.say(&tokens.to_string());
        }
        file.write(&tokens)?;
        Ok(Outcome::Good)
    }
}

/// What is reached, and what is not.
fn told(proposal: &Proposal) -> String {
    let Proposal { tokens, length, experts, needed, short, blocks } = proposal;
    let asked: Vec<String> = length.asked.iter().map(|(tokens, why)| format!("{tokens} for {why}")).collect();
    let mut lines = vec![format!("{}; it takes {}", counted(tokens.len(), "token"), asked.join(", "))];
    lines.extend(length.limited_by.as_ref().map(|by| format!("shorter than it takes, because of {by}")));
    if *experts > 0 {
        let (all, needed) = (counted(*experts, "expert"), counted(*needed, "token"));
        lines.push(format!("{} of {all} are chosen by {needed} or more", experts - short.len()));
    }
    lines.extend(short.iter().map(too_few));
    lines.extend(blocks.map(|(seen, chosen)| {
        let word = if seen > chosen { "so that attention is sparse" } else { "so that attention is not sparse" };
        format!("the last token sees {} of keys and chooses {chosen}, {word}", counted(seen, "block"))
    }));
    lines.join("\n")
}

/// An expert that too few tokens chose.
fn too_few(short: &Short) -> String {
    let Short { layer, expert, tokens, never } = short;
    let place = format!("  expert {expert} of layer {layer}");
    let Some(Never { tried, short_by, bias: [bias, mean], without_bias }) = never else {
        return format!("{place}: {}", counted(*tokens, "token"));
    };
    let tried = counted(*tried, "token");
    let by_bias = match without_bias {
        0 => "without the correction bias it would not be chosen either".to_owned(),
        n => format!("without the correction bias {n} would choose it: its bias is {bias:.3}, the mean {mean:.3}"),
    };
    format!("{place}: chosen by none of {tried} that were tried, {short_by:.3} short at best; {by_bias}")
}
