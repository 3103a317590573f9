//! The book: every page is reached, every link leads somewhere, and every command can be typed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use clap::Parser;
use tools::commands::cli::Cli;
use tools::diagnose::lessons::found;
use tools::diagnose::lessons::list::lessons;

use super::{assert_refused, listing, parity};

/// The links of a text to files of the book.
fn links(text: &str) -> Vec<String> {
    let ends = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    ends.map(|(link, _)| link.to_owned()).filter(|link| !link.contains("://")).collect()
}

/// The commands of a text's shell blocks, without comments.
fn commands(text: &str) -> Vec<String> {
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split_once("```"));
    let lines =
        blocks.flat_map(|(block, _)| block.lines()).map(|line| line.split(" #").next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// The words of `parity …` in a command; none if it is another program's.
fn typed(command: &str) -> Option<Vec<String>> {
    let command = command.strip_prefix("cargo ").unwrap_or(command);
    let command = if let Some((_, after)) = command.split_once("\" parity ") {
        format!("parity {after}")
    } else {
        command.into()
    };
    command.starts_with("parity").then(|| {
        let quoted = command.split('\'').enumerate();
        let words = quoted.flat_map(|(i, part)| match i % 2 {
            0 => part.split_whitespace().map(str::to_owned).collect(),
            _ => vec![part.to_owned()],
        });
        words.collect()
    })
}

fn demand_typed(told: &str, text: &str) -> usize {
    let words: Vec<Vec<String>> = commands(text).iter().filter_map(|command| typed(command)).collect();
    for words in &words {
        if let Err(error) = Cli::try_parse_from(words) {
            let shows =
                matches!(error.kind(), clap::error::ErrorKind::DisplayHelp | clap::error::ErrorKind::DisplayVersion);
            assert!(shows, "{told}: {}: {error}", words.join(" "));
        }
    }
    words.len()
}

#[test]
fn every_page_is_reached_and_every_command_can_be_typed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ran = parity(folder.path(), &["mistakes", "--book", "book"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    let src = folder.path().join("book/src");
    let read = |file: &str| fs::read_to_string(src.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let summary = read("SUMMARY.md");
    let listed: BTreeSet<String> = links(&summary).into_iter().collect();
    let chapters = listing(&src).into_iter().filter(|name| src.join(name).is_file() && name != "SUMMARY.md");
    let mistakes = listing(&src.join("mistakes")).into_iter().map(|name| format!("mistakes/{name}"));
    assert_eq!(listed, chapters.chain(mistakes).collect());
    assert_eq!(listed.len(), lessons().count() + found::all().count() + 4);
    let mut count = 0;
    for file in &listed {
        let text = read(file);
        assert!(text.starts_with("# ") && !text.contains("  \n"), "{file}");
        let beside = Path::new(file).parent().expect("in the book");
        for link in links(&text) {
            assert!(src.join(beside).join(&link).is_file(), "{file}: {link}");
        }
        count += demand_typed(file, &text);
    }
    assert!(count > 2 * lessons().count() + 10, "{count}");
    for lesson in lessons() {
        let page = read(&format!("mistakes/{}.md", lesson.name));
        assert!(page.contains(lesson.wrong) && page.contains(lesson.right), "{page}");
    }
    assert!(fs::read_to_string(folder.path().join("book/book.toml")).expect("written").contains("[book]"));
    assert_refused(&parity(folder.path(), &["mistakes", "--book", "a", "--html", "b"]), &["--html"]);
}

#[test]
fn every_command_of_the_readme_can_be_typed() {
    let text = tests::repository::text("README.md").expect("it is there");
    assert!(demand_typed("README.md", &text.replace("list|verify|regenerate", "list")) > 20);
}

#[test]
fn what_cannot_be_typed_is_found() {
    let text = "```sh\nparity verify MODEL --nothing\n```";
    assert!(std::panic::catch_unwind(|| demand_typed("a page", text)).is_err());
    assert_eq!(typed("git bisect run tools/bisect/step \"make\" parity diff a b").map(|words| words.len()), Some(4));
    assert_eq!(typed("mdbook build DIR"), None);
}
