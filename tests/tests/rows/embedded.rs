//! Tokens that nobody said, and that the dump shows by their embeddings.

use serde_json::json;

use super::laid::{Laid, one_each};
use super::*;

/// Three calls of one request, which says nothing of them.
fn decoded(model: &Model) -> Laid<'_> {
    let calls = vec![json!({ "tokens": [A] }), one_each(&[8]), one_each(&[1])];
    Laid { states: false, ..whole(model, calls) }
}

fn requests_of(model: &Model, dump: Dump, tokens: Option<&str>) -> Result<Vec<Dumped>, String> {
    let given = Given { tokens: tokens.map(str::to_owned), ..Given::default() };
    let model = Model { case: None, ..open(&model.name) };
    Dumped::of(dump, &given, &model).map_err(|failure| failure.to_string())
}

#[test]
fn what_was_decoded_or_all_is_read_from_the_embeddings() {
    for case in CASES {
        let model = open(case);
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (given, prompt, embedded) in [(Some("5,17,3,29,11,2,23"), 7, 2), (Some("5,17,3"), 3, 6), (None, 7, 9)] {
            let found = requests_of(&model, decoded(&model).write(folder.path()), given).expect("its rows are known");
            let [one] = &found[..] else { panic!("{case}: one request") };
            assert_eq!((one.prompt.tokens.len(), one.embedded), (prompt, embedded), "{case}");
            assert_eq!(one.steps, [A.to_vec(), vec![8], vec![1]], "{case}");
            let wrong = reports(&model, one).into_iter().find(|report| report.verdict > Verdict::Tie);
            assert!(wrong.is_none(), "{case}: {wrong:#?}");
        }
    }
}

#[test]
fn other_tokens_and_rows_that_are_no_embedding_are_refused() {
    let model = open(CASES[0]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let refused = |dump: Dump, tokens| requests_of(&model, dump, tokens).expect_err("its tokens are not known");
    let other = refused(decoded(&model).write(folder.path()), Some("5,17,4"));
    assert!(other.contains("differ from position 2"), "{other}");
    let change = |_: usize, position: usize, site: Site, x: &mut f64| {
        if (position, site) == (8, Site::Embedding) {
            *x += 1.0;
        }
    };
    let changed = Laid { change: &change, ..decoded(&model) }.write(folder.path());
    assert!(refused(changed, Some("5,17,3,29,11,2,23")).contains("calls 1 to 2"));
    let absent = |_: usize, site: Site| if site == Site::Embedding { Form::Absent } else { Form::Batch };
    let hidden = Laid { form: &absent, ..decoded(&model) }.write(folder.path());
    assert!(refused(hidden, None).contains("no tokens are known"));
}
