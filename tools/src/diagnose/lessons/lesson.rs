//! What is told of a mistake of one name.

use reference::Semantics;
use reference::Site;
use reference::config::Config;

use crate::diagnose::catalogue::list;
use crate::diagnose::catalogue::mistake::{Clue, Mistake};

/// What is told of a mistake of one name.
#[derive(Debug, Clone, Copy)]
pub struct Lesson {
    /// The mistake's name.
    pub name: &'static str,
    /// What it does to the numbers.
    pub numbers: &'static str,
    /// How to mend it.
    pub mend: &'static str,
    /// Code that has it, in PyTorch's style.
    pub wrong: &'static str,
    /// The same without it.
    pub right: &'static str,
}

/// A place of a prompt at which every mistake can be made that depends on one: behind calls, with tokens on both sides.
const CLUE: Clue = Clue { position: 20, last: 10, tokens: 40, context: 20 };

impl Lesson {
    /// The catalogue's entries of its name, one at least: what the catalogue says is the first's.
    pub fn entries(&self) -> impl Iterator<Item = &'static Mistake> {
        let name = self.name;
        list::all().filter(move |mistake| mistake.name == name)
    }

    /// The operators that it can be made in, of each kind once.
    pub fn touches(&self) -> Vec<Site> {
        let mut sites: Vec<Site> = Vec::new();
        for site in self.entries().flat_map(|mistake| mistake.touches) {
            if !sites.contains(site) {
                sites.push(*site);
            }
        }
        sites
    }

    /// Whether it can be made in a model that is read so.
    pub fn can_be_made(&self, config: &Config, semantics: &Semantics) -> bool {
        self.entries().flat_map(|mistake| mistake.cases(config, CLUE)).any(|case| !case.change.is_in(semantics))
    }
}
