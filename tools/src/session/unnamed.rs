//! Why a dump's names do not tell what it has, and what to do about it.

use std::path::Path;

use fixtures::names::fed::is_fed;
use fixtures::names::map::{NameMap, Rule};
use fixtures::names::sited::Sited;
use reference::{LayerSite, Site};

use super::told::are_unknown;
use crate::failure::Failure;
use crate::report::figures;

/// Unknown names that an error lists.
const LISTED: usize = 12;

/// Refuses a dump of whose names fewer than half are known: what the rest says would be no verdict on the model.
pub(super) fn require_known(dump: &Sited, names: Option<&Path>) -> Result<(), Failure> {
    if !are_unknown(dump) {
        return Ok(());
    }
    let (unknown, all) = (&dump.reading().unknown, dump.dump().names().count());
    let listed = unknown.iter().take(LISTED).map(|name| match dump.closest(name) {
        Some(close) => format!("{name} (is it {close}?)"),
        None => name.clone(),
    });
    let listed = listed.collect::<Vec<_>>().join(", ");
    let more = unknown.len().saturating_sub(LISTED);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let (path, engine, known) = (dump.dump().path().display(), &dump.reading().engine, all - unknown.len());
    let problem =
        format!("{path}: {known} of {all} names are known, read as {engine}'s; these are not: {listed}{more}");
    Err(Failure::new(problem).help(match dump.better() {
        Some(other) => format!("they look like {other}'s: is that the producer that the manifest should name?"),
        None if is_of_some(dump) => HELP_SOME.to_owned(),
        None => names.map(|file| without_match(dump, file)).transpose()?.flatten().unwrap_or_else(naming),
    }))
}

/// The rules of a file that no name of the dump is of, in words; nothing, if all have one.
fn without_match(dump: &Sited, file: &Path) -> Result<Option<String>, Failure> {
    let map = NameMap::load(file)?;
    let is_idle = |rule: &&Rule| !dump.dump().names().any(|name| rule.from.match_name(name).is_some());
    let idle: Vec<&str> = map.rules.iter().filter(is_idle).map(|rule| rule.from.text()).collect();
    let shown = idle.iter().take(LISTED).copied().collect::<Vec<_>>().join(", ");
    let all = figures::counted(map.rules.len(), "rule");
    Ok((!idle.is_empty()).then(|| format!("of {}'s {all}, these have no name in the dump: {shown}", file.display())))
}

const HELP_SCORES: &str = "scores are what generate makes of logits, by temperature, penalties and filters: keep these, with \
                           generate(output_logits=True, return_dict_in_generate=True), and save them as logits.0, logits.1, …";

const HELP_SOME: &str = "log-probabilities of some tokens alone are read as servers answer with them, as JSON with the tokens' ids: give that \
                         file, or keep those of the whole vocabulary, or logits, a row each token";

const HELP_TOKENS: &str = "which tokens were chosen does not tell a mistake from rounding: keep the logits that they were taken from, with \
                           generate(output_logits=True, return_dict_in_generate=True), or what hooks see (tools/capture)";

/// Whether a name is of token ids.
fn is_of_tokens(name: &str) -> bool {
    name.rsplit(['.', '/']).any(is_fed)
}

/// Whether it is of some tokens' log-probabilities, or of the likeliest alone.
fn is_of_some(dump: &Sited) -> bool {
    let unknown = &dump.reading().unknown;
    let are_likeliest = || !unknown.is_empty() && unknown.iter().all(|name| name.contains("topk"));
    unknown.iter().any(|name| name.contains("logprob")) || are_likeliest()
}

/// Of a dump of which no name is known.
pub(super) fn no_site(dump: &Sited) -> Failure {
    let names: Vec<&str> = dump.dump().names().take(5).collect();
    let path = dump.dump().path().display();
    let are_scores = names.iter().all(|name| name.split('.').any(|part| part == "scores"));
    let help = if are_scores {
        HELP_SCORES.to_owned()
    } else if is_of_some(dump) {
        HELP_SOME.to_owned()
    } else if dump.dump().names().all(is_of_tokens) {
        HELP_TOKENS.to_owned()
    } else {
        naming()
    };
    Failure::new(format!("{path}: no name is a site's, such as {}", names.join(", "))).help(help)
}

/// Of one rank's part alone.
pub(super) fn of_one_rank(dump: &Sited, tensor: &str, ranks: usize) -> Failure {
    let (path, shape) = (dump.dump().path().display(), dump.dump().find(tensor).map_or(&[][..], |listed| listed.shape));
    let problem = format!("{path}: {tensor} is {shape:?}, as one rank of {ranks} has it, expected all heads");
    Failure::new(problem).help(format!(
        "dump all ranks, and name a folder with what each of them has, rank-0 to rank-{}: of one alone the rest is not known",
        ranks - 1
    ))
}

/// How names are given.
pub(super) fn naming() -> String {
    let example = Site::Layer(0, LayerSite::QProj);
    format!(
        "name tensors as transformers names modules, such as {example}, or give --names FILE; where --tokens say what went in, names of \
         nobody are told by values"
    )
}
