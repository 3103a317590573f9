//! Known mistakes with all that is known of them, and the models in which each can be made.

use fixtures::synth::released::Released;
use reference::Semantics;
use reference::config::Config;

use super::model::{Model, configuration};
use crate::diagnose::lessons::found;
use crate::diagnose::lessons::lesson::Lesson;
use crate::diagnose::lessons::list::lessons;
use crate::failure::Failure;
use crate::report::mistakes::Entry;

/// All of them, and behind them the kinds of what a search finds. What is released comes before the built-in cases.
pub fn entries() -> Result<Vec<Entry>, Failure> {
    let released = Released::ALL.map(|released| released.name.to_owned());
    let names: Vec<String> = released.into_iter().chain(Model::built_in()?).collect();
    let configs: Vec<Config> = names.iter().map(|name| configuration(name)).collect::<Result<_, _>>()?;
    let made_in = |lesson: &Lesson| -> Vec<String> {
        let readings = [Semantics::RELEASED, Semantics::DOCUMENTS];
        let can = |config: &Config| readings.iter().any(|reading| lesson.can_be_made(config, reading));
        names.iter().zip(&configs).filter(|(_, config)| can(config)).map(|(name, _)| name.clone()).collect()
    };
    let known = lessons().map(|lesson| Entry::of(lesson, made_in(lesson)));
    Ok(known.chain(found::all().map(Entry::searched)).collect())
}

/// That of a name. Refused if there is none.
pub fn entry(name: &str) -> Result<Entry, Failure> {
    if let Some(found) = found::of(name) {
        return Ok(Entry::searched(found));
    }
    require(name, || lessons().map(|lesson| lesson.name).chain(found::all().map(|found| found.kind.name)))?;
    Ok(entries()?.into_iter().find(|entry| entry.name == name).expect("each mistake has a lesson"))
}

/// Refuses a name that no known mistake has.
pub(super) fn require_known(name: &str) -> Result<(), Failure> {
    if found::of(name).is_some() {
        let problem = format!("{name} is a kind of what a search finds, and no known mistake that could be made");
        return Err(Failure::new(problem).help(format!("`parity mistakes {name}` tells of it")));
    }
    require(name, || lessons().map(|lesson| lesson.name))
}

fn require<N: Iterator<Item = &'static str>>(name: &str, names: impl Fn() -> N) -> Result<(), Failure> {
    if names().any(|known| known == name) {
        return Ok(());
    }
    let closest = fixtures::names::closest(name, names());
    let help = closest.map_or("`parity mistakes` lists them".to_owned(), |name| format!("did you mean {name}?"));
    Err(Failure::new(format!("{name} is no known mistake")).help(help))
}
