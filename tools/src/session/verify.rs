//! A dump from any engine next to the reference.

use std::path::PathBuf;

use bytesize::ByteSize;
use fixtures::activations::dump::Dump;
use fixtures::activations::rows::Request;
use fixtures::names::families::Taken;
use fixtures::names::habit::{First, Sides};
use fixtures::names::sited::Sited;
use reference::{LayerSite, Site};

use super::asked::{Asked, Asking, Subject};
use super::backend::ran_on_emulated;
use super::dumped::{Dumped, Given, Prefix, require_intact};
use super::identity::{Identity, Verifying};
use super::model::Model;
use super::part::Part;
use super::progress::{Progress, Watcher};
use super::resume::Folder;
use super::room::require_room;
use super::shard::{Shard, ShardFile};
use super::units::{Unit, split};
use super::untold::untold;
use super::window::are_one_run;
use crate::failure::Failure;
use crate::report::content::Report;
use crate::report::figures::counted;

/// Puts a dump next to the model's reference: a report for each request.
pub fn verify(
    model: &Model,
    dump: Dump,
    given: &Given,
    asked: &Asked,
    watch: &mut Watcher<'_>,
) -> Result<Vec<Report>, Failure> {
    verify_by(&Means::default(), model, dump, (given, asked), watch)
}

/// How much of a machine a verification takes, and what outlasts it.
#[derive(Debug, Clone, Default)]
pub struct Means {
    /// The folder in which finished units are kept.
    pub resume: Option<PathBuf>,
    /// Anonymous memory that may be used.
    pub memory: Option<ByteSize>,
}

/// The same by these means: in units of work, where these are kept, or there is no room to do all of it together.
pub fn verify_by(
    means: &Means,
    model: &Model,
    dump: Dump,
    (given, asked): (&Given, &Asked),
    watch: &mut Watcher<'_>,
) -> Result<Vec<Report>, Failure> {
    let requests = Dumped::of(dump, given, model)?;
    let subjects: Vec<Subject<'_>> = requests.iter().map(|dumped| subject(model, dumped)).collect();
    let asking = Asking::new(model, &subjects, asked);
    let (units, outline) = (asking.units()?, asking.outline()?);
    let has_room = match means.memory {
        Some(memory) => asking.need(&units)? <= memory.as_u64(),
        None => true,
    };
    if has_room && means.resume.is_none() {
        let parts = asking.parts(watch)?;
        require_intact(model, requests[0].values.dump())?;
        return outline.reports(parts);
    }
    let parts = in_units(means, (model, &requests), &asking, &units, watch)?;
    outline.reports(units.iter().map(|unit| unit.request).zip(parts).collect())
}

/// One shard of it.
pub fn verify_shard(
    (shard, means): (Shard, &Means),
    model: &Model,
    dump: Dump,
    (given, asked): (&Given, &Asked),
    watch: &mut Watcher<'_>,
) -> Result<ShardFile, Failure> {
    let requests = Dumped::of(dump, given, model)?;
    let subjects: Vec<Subject<'_>> = requests.iter().map(|dumped| subject(model, dumped)).collect();
    let asking = Asking::new(model, &subjects, asked);
    let (units, outline) = (asking.units()?, asking.outline()?);
    // Of more shards than units, those that are left over are empty.
    let done = split(&asking.costs(&units), shard.of().min(units.len()));
    let done = done.into_iter().nth(shard.index()).unwrap_or(units.len()..units.len());
    let parts = in_units(means, (model, &requests), &asking, &units[done.clone()], watch)?;
    let (identity, _) = Identity::of(model, &requests, &asking.lenses);
    ShardFile::new(shard, (identity, outline), (units, done), parts)
}

/// What is found in units, each by itself.
fn in_units(
    Means { resume, memory }: &Means,
    (model, requests): (&Model, &[Dumped]),
    asking: &Asking<'_>,
    units: &[Unit],
    watch: &mut Watcher<'_>,
) -> Result<Vec<Part>, Failure> {
    let open = |path: &PathBuf| {
        let (identity, dates) = Identity::of(model, requests, &asking.lenses);
        Folder::open(path, &Verifying { identity, dates })
    };
    let folder = resume.as_ref().map(open).transpose()?;
    let mut kept = Vec::with_capacity(units.len());
    for unit in units {
        let part = folder.as_ref().map_or(Ok(None), |folder| folder.part(unit));
        kept.push(part.unwrap_or_else(|damaged| {
            watch(Progress::Note(&damaged));
            None
        }));
    }
    let open_units = || units.iter().zip(&kept).filter(|(_, kept)| kept.is_none()).map(|(unit, _)| unit);
    if let Some(memory) = memory {
        open_units().try_for_each(|unit| require_room(*memory, &unit.to_string(), asking.need_of(unit)?))?;
    }
    let found = units.len() - open_units().count();
    if found > 0 {
        watch(Progress::Note(&format!("done already: {found} of {} of work", counted(units.len(), "unit"))));
    }
    watch(Progress::Begins { what: "verifying unit by unit", steps: units.len() });
    let mut parts = Vec::with_capacity(units.len());
    for (unit, kept) in units.iter().zip(kept) {
        parts.push(if let Some(part) = kept {
            part
        } else {
            watch(Progress::Place(&unit.to_string()));
            let part = asking.part(unit, &mut |_| ())?;
            require_intact(model, requests[0].values.dump())?;
            folder.as_ref().map_or(Ok(()), |folder| folder.keep(unit, &part))?;
            model.checkpoint.release();
            requests[0].values.dump().release();
            part
        });
        watch(Progress::Step);
    }
    watch(Progress::Ends);
    Ok(parts)
}

fn subject<'a>(model: &'a Model, dumped: &'a Dumped) -> Subject<'a> {
    let (values, config) = (&dumped.values, model.checkpoint.config());
    let path = values.dump().path().display();
    let producer = values.dump().manifest().and_then(|manifest| manifest.producer.as_ref());
    let producer = producer.map(|producer| format!(", by {}", words(producer))).unwrap_or_default();
    Subject {
        comparison: dumped.comparison(model),
        name: name(model, dumped),
        candidate: format!("{path}{producer}"),
        precision_from: dumped.known.from.clone(),
        unsure: untold(dumped, config).or_else(|| dumped.known.unsure.clone()),
        unread: values.reading().unknown.len(),
        notes: notes(dumped, (0..config.num_hidden_layers).any(|layer| config.index_of(layer).is_some())),
        prompt: &dumped.prompt,
        whole: values.request().is_none_or(|request| request.absent == 0),
        emulated: ran_on_emulated(values.dump().manifest()),
    }
}

fn name(model: &Model, dumped: &Dumped) -> String {
    let name = match dumped.request {
        (number, 2..) => format!("{} request {number}", model.name),
        _ => model.name.clone(),
    };
    if dumped.prefix == Prefix::Computed { format!("{name} whole") } else { name }
}

/// What nobody said of a dump's tokens and rows, and was found.
fn notes_of_tokens(dumped: &Dumped) -> Vec<String> {
    let mut notes = Vec::new();
    if dumped.aside > 0 {
        let calls = counted(dumped.aside, "call");
        notes.push(format!("{calls} of other tokens before this one, such as a server's profile run: left out"));
    }
    if dumped.embedded > 0 {
        let tokens = counted(dumped.embedded, "token");
        notes.push(format!("{tokens} that nobody named: read from their embeddings in the dump"));
    }
    if dumped.likeliest > 0 {
        let tokens = counted(dumped.likeliest, "token");
        notes.push(format!(
            "{tokens} that nobody named: taken as decoded greedily, each the likeliest by the logits before it"
        ));
    }
    let kept = dumped.values.request().and_then(|request| request.passes.first()?.kept.as_ref());
    if let Some(kept) = kept.filter(|kept| !are_one_run(kept)) {
        let kept = kept.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        notes.push(format!("logits are those of the tokens {kept}, counted from 0"));
    }
    if dumped.scored {
        notes.push(
            "scores are read as logits: no filter is in them, and neither a temperature nor penalties by the first step".into(),
        );
    }
    if dumped.unread > 0 {
        let tokens = counted(dumped.unread, "token");
        notes.push(format!(
            "{tokens} at the end of what was given that the dump has no rows of: the last is never read"
        ));
    }
    if dumped.padding > 0 {
        notes.push(format!(
            "{} at an end of its list are padding, though no attention_mask says so: values are those of the rest alone; \
             a mask of ones demands otherwise",
            counted(dumped.padding, "token")
        ));
    }
    if dumped.filled > 0 {
        notes.push(format!(
            "{} of the calls are of no request, as where a graph's batch is filled up: left out",
            counted(dumped.filled, "row")
        ));
    }
    if let Some(rows) = &dumped.beam {
        let rows: Vec<String> = rows.iter().map(usize::to_string).collect();
        let rows = rows.join(", ");
        notes.push(format!(
            "rows change places between calls, as those of a beam search do: recovered from values, this is rows {rows} of calls 0 on"
        ));
    }
    notes
}

/// What the reader should know of a dump's precision, rows and names.
fn notes(dumped: &Dumped, chooses_blocks: bool) -> Vec<String> {
    let dump = &dumped.values;
    let reading = dump.reading();
    let mut notes: Vec<String> = dumped.known.coarser.iter().cloned().collect();
    notes.extend(dump.request().and_then(|request| note_of_rows(request, dumped.prefix)));
    notes.extend(notes_of_tokens(dumped));
    if let Some(padding) =
        dump.request().map(|request| request.padding).filter(|&padding| padding > 0 && chooses_blocks)
    {
        notes.push(format!(
            "{} of padding before the first token: an engine that cuts blocks of keys by slots of its cache, as \
             transformers 5.23 does, chooses other blocks than for the request alone, which is a fault",
            counted(padding, "slot")
        ));
    }
    if !reading.unknown.is_empty() {
        let listed: Vec<String> = reading.unknown.iter().take(5).map(|name| with_closest(dump, name)).collect();
        let more = reading.unknown.len().saturating_sub(listed.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        notes.push(format!("names that are not known: {}{more}", listed.join(", ")));
    }
    let mut told = dump.told().iter().filter(|told| told.taken != Taken::Not).peekable();
    if told.peek().is_some() {
        let told: Vec<String> =
            told.map(|told| format!("{} is {} ({:.0e})", told.from, told.meant, told.apart)).collect();
        notes.push(format!(
            "names that are not known are told by values, which are off by so much of the reference's size: {}; if one is another, \
             give --names FILE",
            told.join(", ")
        ));
    }
    if let Some(name) = &reading.nameless {
        notes.push(format!(
            "{name} says nothing by its name: read as logits, for it alone is as wide as the vocabulary"
        ));
    }
    if reading.takes_inputs {
        notes.push("names are numbers of layers alone, and values are what goes into each layer: read so".into());
    }
    if reading.first == First::One {
        notes.push("names count layers from 1: read so".into());
    }
    match reading.sides {
        Sides::Outputs => {}
        Sides::Inputs => notes.push("values are what goes into each module, not what comes out: read so".into()),
        Sides::Pairs => notes.push(
            "two values of each module, which names tell by number alone: read as what goes in and what comes out"
                .into(),
        ),
    }
    if reading.ends_before_norm {
        notes.push(
            "the last of a list of states is what the last layer puts out, before the final norm: read so".into(),
        );
    }
    notes.extend(dump.remarks());
    if let Some(of) = reading.list.map(|list| list.of).filter(|of| *of != LayerSite::Output) {
        let first = Site::Layer(0, of);
        notes.push(format!("names say nothing but layers' numbers: values are those of {first} and its like"));
    }
    if dump.told().is_empty() && !dump.rivals().is_empty() {
        notes.push(format!("read as {}'s names; they could be {}'s too", reading.engine, dump.rivals().join("'s or ")));
    }
    notes
}

/// What the reader should know of a request's rows.
fn note_of_rows(request: &Request, prefix: Prefix) -> Option<String> {
    if prefix == Prefix::Computed {
        return Some(
            "the tokens before these rows are computed, for what attention reads of them; choices, and what stands between \
             operators, are compared above, and not here"
                .into(),
        );
    }
    let (absent, shift) = (request.absent, request.shift);
    if let (Some(first), Some(last)) = (request.passes.first(), request.passes.last())
        && let Some(window) = &first.window
    {
        return Some(format!(
            "the dump has rows of the tokens {} to {} alone: those that its embeddings are, or to whose values the \
             reference's are nearest",
            window.start,
            last.first + last.tokens.len() - 1
        ));
    }
    if absent > 0 {
        let attention = match prefix {
            Prefix::Beside => "attention is judged below, and so are layers as a whole",
            _ => "attention is not judged, nor are layers as a whole",
        };
        return Some(format!("positions up to {} came from a cache and are not in the dump: {attention}", absent - 1));
    }
    (shift > 0).then(|| {
        if shift == request.padding {
            let slots = counted(shift, "slot");
            format!("the candidate counts {slots} of padding: its position {shift} is the first token's")
        } else {
            format!("the candidate's first token is at position {shift}, which changes rotations alone")
        }
    })
}

fn with_closest(dump: &Sited, name: &str) -> String {
    dump.closest(name).map_or_else(|| name.to_owned(), |closest| format!("{name} (did you mean {closest}?)"))
}

/// A producer, in words.
fn words(producer: &serde_json::Value) -> String {
    let field = |name: &str| producer.get(name).and_then(serde_json::Value::as_str);
    match (producer.as_str(), field("library"), field("version")) {
        (Some(text), ..) => text.to_owned(),
        (_, Some(library), Some(version)) => format!("{library} {version}"),
        _ => producer.to_string(),
    }
}
