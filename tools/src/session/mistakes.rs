//! Known mistakes with all that is known of them, and the models in which each can be made.

use fixtures::synth::released::Released;
use reference::Semantics;
use reference::config::Config;

use super::model::{Model, configuration};
use crate::diagnose::lessons::lesson::Lesson;
use crate::diagnose::lessons::list::lessons;
use crate::failure::Failure;
use crate::report::mistakes::Entry;

/// All of them. What is released comes before the built-in cases.
pub fn entries() -> Result<Vec<Entry>, Failure> {
    let released = Released::ALL.map(|released| released.name.to_owned());
    let names: Vec<String> = released.into_iter().chain(Model::built_in()?).collect();
    let configs: Vec<Config> = names.iter().map(|name| configuration(name)).collect::<Result<_, _>>()?;
    let made_in = |lesson: &Lesson| -> Vec<String> {
        let readings = [Semantics::RELEASED, Semantics::DOCUMENTS];
        let can = |config: &Config| readings.iter().any(|reading| lesson.can_be_made(config, reading));
        names.iter().zip(&configs).filter(|(_, config)| can(config)).map(|(name, _)| name.clone()).collect()
    };
    Ok(lessons().map(|lesson| Entry::of(lesson, made_in(lesson))).collect())
}

/// That of a name. Refused if there is none.
pub fn entry(name: &str) -> Result<Entry, Failure> {
    require_known(name)?;
    Ok(entries()?.into_iter().find(|entry| entry.name == name).expect("each mistake has a lesson"))
}

/// Refuses a name that no known mistake has.
pub(super) fn require_known(name: &str) -> Result<(), Failure> {
    if lessons().any(|lesson| lesson.name == name) {
        return Ok(());
    }
    let closest = fixtures::names::closest(name, lessons().map(|lesson| lesson.name));
    let help = closest.map_or("`parity mistakes` lists them".to_owned(), |name| format!("did you mean {name}?"));
    Err(Failure::new(format!("{name} is no known mistake")).help(help))
}
