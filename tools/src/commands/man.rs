//! `parity man`: the help of every command as manual pages.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man as Page;

use super::outcome::Outcome;
use crate::failure::Failure;
use crate::report::output::Output;

/// What is typed.
#[derive(Debug, Clone, Args)]
pub struct Man {
    /// The folder for the pages, such as ~/.local/share/man/man1. Pages of the same names are replaced.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

impl Man {
    /// Does it, of the whole command line.
    pub fn carry_out(&self, whole: Command, output: Output) -> Result<Outcome, Failure> {
        let refused = |error: std::io::Error| {
            Failure::new(format!("{}: cannot write the pages: {error}", self.out.display())).help("name another folder")
        };
        fs::create_dir_all(&self.out).map_err(refused)?;
        let mut whole = whole.disable_help_subcommand(true);
        whole.build();
        let commands = with_subcommands(&whole);
        for command in &commands {
            let page = Page::new((*command).clone());
            let mut text = Vec::new();
            page.render(&mut text).map_err(refused)?;
            fixtures::whole::write(&self.out.join(page.get_filename()), &text)?;
        }
        output.say(&format!("{}: {} manual pages", self.out.display(), commands.len()));
        Ok(Outcome::Good)
    }
}

/// A command, and all within it.
fn with_subcommands(command: &Command) -> Vec<&Command> {
    std::iter::once(command).chain(command.get_subcommands().flat_map(with_subcommands)).collect()
}
