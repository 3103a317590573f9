//! Histories: a loop that was stopped goes on as if it had not been.

use std::fs;

use tools::tune::evolve::{Asked, begun, evolve};
use tools::tune::history::{History, Identity};

use super::{ASKED, Formula, formula, run, tiles};

fn identity() -> Identity {
    [("device", "this"), ("operator", "linear_head")].map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// A history of ten rounds in a file.
fn written(folder: &std::path::Path) -> (std::path::PathBuf, History) {
    let path = folder.join("history.json");
    let mut subject = formula();
    let asked = Asked { rounds: 10, ..ASKED };
    let mut history = begun(&mut subject, asked, identity(), None).expect("it begins");
    evolve(&mut subject, asked, &mut history, |history| history.write(&path)).expect("it runs");
    (path, history)
}

#[test]
fn what_was_stopped_goes_on_as_if_it_had_not_been() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for stopped in [0, 1, 7, 23] {
        let path = folder.path().join(format!("{stopped}.json"));
        let mut subject = Formula { right: |settings| settings[4] != 5, ..formula() };
        let (whole, state) = run(&mut subject, ASKED);
        let (part, _) = run(&mut subject, Asked { rounds: stopped, ..ASKED });
        part.write(&path).expect("writable");
        let mut found = History::open(&path).expect("readable").expect("it is there");
        assert_eq!(found, part, "what is read is what was written");
        let other = evolve(&mut subject, ASKED, &mut found, |_| Ok(())).expect("it runs");
        assert_eq!((found, other), (whole, state), "stopped after {stopped}");
    }
}

/// The file is whole after each round, and nothing is left beside it.
#[test]
fn each_round_is_in_the_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("history.json");
    let mut subject = formula();
    let mut history = begun(&mut subject, ASKED, identity(), None).expect("it begins");
    let mut rounds = 0;
    evolve(&mut subject, ASKED, &mut history, |history| {
        history.write(&path)?;
        rounds += 1;
        let found = History::open(&path)?.expect("it is there");
        assert_eq!((found.rounds.len(), fs::read_dir(folder.path()).expect("a folder").count()), (rounds, 1));
        Ok(())
    })
    .expect("it runs");
    assert_eq!(rounds, history.rounds.len());
}

#[test]
fn a_history_of_something_else_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (path, _) = written(folder.path());
    let mut other = identity();
    other.insert("device".to_owned(), "another".to_owned());
    let found = History::open(&path).expect("readable").expect("it is there");
    let error = found.require(&path, &other).expect_err("it is of another device").to_string();
    assert!(error.contains("another device: this, and now it is another"), "{error}");
    other = identity();
    other.remove("operator");
    assert!(found.require(&path, &other).expect_err("of more").to_string().contains("linear_head"));
}

/// A flag as the document's listing computes it is inverted, and does not fit the scores.
#[test]
fn an_inverted_flag_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_, mut history) = written(folder.path());
    assert!(history.state(&tiles()).is_ok());
    let kept = history.rounds.iter().position(|round| round.kept).expect("something was better");
    history.rounds[kept].kept = false;
    let error = history.state(&tiles()).expect_err("the flag is inverted");
    assert!(error.to_string().contains(&format!("round {}", kept + 1)) && error.to_string().contains("not kept"));
    assert!(error.advice().is_some_and(|advice| advice.contains("D64")));
}

#[test]
fn what_is_no_history_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (path, _) = written(folder.path());
    let text = fs::read_to_string(&path).expect("readable");
    for damaged in ["", "{}", &text[..text.len() / 2], &text.replace("\"schema\": 1", "\"schema\": 2")] {
        fs::write(&path, damaged).expect("writable");
        let error = History::open(&path).expect_err("it is none");
        assert!(error.to_string().contains("history.json") && error.advice().is_some(), "{error}");
    }
    let nowhere = folder.path().join("none/history.json");
    assert!(History::open(&nowhere).expect_err("no such folder").to_string().contains("none"));
}
