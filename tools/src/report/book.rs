//! The book in Markdown, as mdBook reads it: its chapters, what is known of precisions, and a page for each known mistake.

use std::fmt::Write;

use reference::profiles::{PROFILES, Profile};

use super::mistakes::{Entry, Made, SEARCHED, counts};

/// The chapters that are written by hand: file, title, text.
const CHAPTERS: [(&str, &str, &str); 3] = [
    ("five-minutes.md", "Your port is wrong: find it in five minutes", include_str!("../../book/five-minutes.md")),
    ("verdicts.md", "What a verdict means", include_str!("../../book/verdicts.md")),
    (PROFILES_FILE, "Profiles of engines", include_str!("../../book/profiles.md")),
];

const PROFILES_FILE: &str = "profiles.md";

/// The list of mistakes.
const LIST: &str = "mistakes.md";

/// What mdBook needs to know.
const SETTINGS: &str = "[book]\ntitle = \"parity\"\nlanguage = \"en\"\n";

/// A file of the book: its path and text.
pub type Page = (String, String);

/// All files, from the folder that mdBook is given.
pub fn pages(entries: &[Entry]) -> Vec<Page> {
    let chapters = CHAPTERS.map(|(file, _, text)| {
        let more = if file == PROFILES_FILE { profiles() } else { String::new() };
        (format!("src/{file}"), format!("{text}{more}"))
    });
    let of_mistakes = entries.iter().map(|entry| (format!("src/{}", file(entry)), mistake(entry)));
    let others = [
        ("book.toml".to_owned(), SETTINGS.to_owned()),
        ("src/SUMMARY.md".to_owned(), summary(entries)),
        (format!("src/{LIST}"), list(entries)),
    ];
    others.into_iter().chain(chapters).chain(of_mistakes).collect()
}

fn file(entry: &Entry) -> String {
    format!("mistakes/{}.md", entry.name)
}

/// The table of contents.
fn summary(entries: &[Entry]) -> String {
    let mut text = "# Summary\n\n".to_owned();
    for (file, title, _) in CHAPTERS {
        let _ = writeln!(text, "- [{title}]({file})");
    }
    let _ = writeln!(text, "- [Known mistakes]({LIST})");
    for entry in entries {
        let _ = writeln!(text, "  - [{}]({})", entry.name, file(entry));
    }
    text
}

fn profiles() -> String {
    let mut text = String::new();
    for Profile { name, engine, contract, modes, source } in PROFILES {
        let _ = writeln!(text, "## {name}\n\nOf {engine}. Source: {source}.\n");
        let fields = contract.fields().map(|(field, value)| format!("`{field}={value}`"));
        let _ = writeln!(text, "It rounds by {}.\n", fields.join(", "));
        let modes: Vec<String> = modes.iter().map(|ways| format!("`{}`", ways.join("` or `"))).collect();
        if !modes.is_empty() {
            let _ = writeln!(text, "In other modes: {}.\n", modes.join("; "));
        }
    }
    text
}

fn list(entries: &[Entry]) -> String {
    let (known, others) = counts(entries);
    let mut text = format!(
        "# Known mistakes\n\n{known} that ports make, or could. `parity diagnose` names them in a dump.\n\n\
         | mistake | operators | what the code does |\n|---|---|---|\n"
    );
    for entry in entries {
        let Some(made) = &entry.made else { continue };
        let (name, operators) = (entry.name, made.operators.join(", "));
        let _ = writeln!(text, "| [{name}]({}) | {} | {} |", file(entry), cell(&operators), cell(entry.about));
    }
    let _ = write!(text, "\n{others} that it finds by search where none of those explains a dump.\n\n");
    text.push_str("| what is searched | what the code does |\n|---|---|\n");
    for entry in entries.iter().filter(|entry| entry.made.is_none()) {
        let _ = writeln!(text, "| [{}]({}) | {} |", entry.name, file(entry), cell(entry.about));
    }
    text
}

/// All that is known of one.
fn mistake(entry: &Entry) -> String {
    let mut text = format!("# {}\n", entry.name);
    let mut part = |title: &str, body: &str| {
        let _ = writeln!(text, "\n## {title}\n\n{body}");
    };
    part("What the code does", &plain(entry.about));
    part("What is right", &plain(entry.right));
    part("What it does to the numbers", &plain(entry.numbers));
    part("How to mend it", &plain(entry.mend));
    match &entry.made {
        Some(made) => text.push_str(&of_known(entry.name, made)),
        None => part("How it is found", SEARCHED),
    }
    text
}

/// What is told of a mistake that can be made.
fn of_known(name: &str, made: &Made) -> String {
    let mut text = String::new();
    let mut part = |title: &str, body: &str| {
        let _ = writeln!(text, "\n## {title}\n\n{body}");
    };
    part("In code", &format!("Wrong:\n\n{}\n\nRight:\n\n{}", code(made.wrong_code), code(made.right_code)));
    let shown = format!("A dump shows it in {}. {}", made.operators.join(", "), made.visible);
    part("Where it is visible", &plain(&shown));
    part("In which models it can be made", &plain(&made.models()));
    if !made.witnesses.is_empty() {
        let told: Vec<String> = made.witnessed().iter().map(|said| format!("- {}", plain(said))).collect();
        part("What it did", &told.join("\n"));
    }
    part("See it", &format!("```sh\nparity demo {name}\nparity mistakes {name}\n```"));
    text
}

/// Text in which Markdown finds no marks.
fn plain(text: &str) -> String {
    text.chars().fold(String::new(), |mut plain, letter| {
        if "\\`*_[]<>#|".contains(letter) {
            plain.push('\\');
        }
        plain.push(letter);
        plain
    })
}

/// The same in a cell of a table.
fn cell(text: &str) -> String {
    plain(text).replace('\n', " ")
}

fn code(text: &str) -> String {
    format!("```python\n{text}\n```")
}
