//! Rows that fit nothing are refused, with what was expected.

use fixtures::activations::rows::inferred::{self, Fed, Size};
use fixtures::activations::rows::{requests, stated};
use serde_json::{Value, json};

/// What is said of calls that a manifest states.
fn stated(calls: &Value) -> String {
    let calls: Vec<stated::StatedCall> = serde_json::from_value(calls.clone()).expect("calls");
    let found = stated::calls(&calls).and_then(|calls| requests(&calls));
    found.map(|found| format!("{found:?}")).expect_err("it is refused")
}

/// What is said of prompts, and of how many rows each call has.
fn unstated(prompts: &[&[u32]], decoded: &[u32], rows: &[usize]) -> String {
    let fed: Vec<Fed> = prompts.iter().map(|prompt| Fed::new(prompt, decoded)).collect();
    let sizes: Vec<Size> = rows.iter().map(|&rows| Size { rows: Some(rows), ..Size::default() }).collect();
    inferred::calls(&fed, &sizes).map(|calls| format!("{calls:?}")).expect_err("it is refused")
}

#[test]
fn what_a_manifest_states_and_cannot_be() {
    for (calls, said) in [
        (json!([{ "tokens": [[1, 2], [3]] }]), "call 0: its lists have 2 and 1 tokens, expected one length"),
        (json!([{ "tokens": [[1, 2], [3, 4]], "mask": [[1, 1]] }]), "call 0: its mask has 1 lists, its tokens 2"),
        (json!([{ "tokens": [1, 2, 3], "mask": [1, 1] }]), "call 0: list 0: the mask has 2 slots, the tokens 3"),
        (
            json!([{ "tokens": [1, 2, 3], "mask": [1, 0, 1] }]),
            "call 0: list 0: the mask is 0 at slot 1, between tokens: expected padding on one side",
        ),
        (json!([{ "tokens": [1, 2], "mask": [0, 0] }]), "request 0 has no token: all of its slots are padding"),
        (
            json!([{ "tokens": [1, 2, 3], "positions": [0, 1, 3] }]),
            "call 0, request 0: slot 2 is at position 3, expected 2",
        ),
        (
            json!([{ "tokens": [1, 2], "positions": [0, 1] }, { "tokens": [3], "positions": [4] }]),
            "call 1, request 0: its first row is at position 4, expected 2, or one before it",
        ),
        (
            json!([{ "tokens": [1, 2, 3], "cu_seqlens": [0, 2, 4] }]),
            "call 0: cu_seqlens is [0, 2, 4], expected numbers that rise from 0 to 3",
        ),
        (
            json!([{ "tokens": [[1], [2]], "requests": [4, 4] }]),
            "call 0: request 4 has two lists of rows, expected one",
        ),
        (json!([{ "tokens": [[1], [2]], "requests": [4] }]), "call 0: it names 1 requests, and has rows of 2"),
        (json!([{ "tokens": [] }]), "call 0: it has no token"),
    ] {
        assert_eq!(stated(&calls), said, "{calls}");
    }
}

#[test]
fn prompts_that_are_not_the_dumps() {
    for (prompts, decoded, rows, said) in [
        (
            &[&[1, 2, 3][..]][..],
            &[][..],
            &[5][..],
            "the dump's first call has 5 rows a request, and the prompt 3 tokens",
        ),
        (&[&[1, 2, 3]], &[], &[2], "the dump's calls have 2 rows a request, and the prompt 3 tokens"),
        (&[&[1, 2, 3]], &[7], &[3, 1, 1], "calls 2 to 2 have 1 rows a request after 4, and the tokens of 0 are known"),
        (
            &[&[1, 2, 3], &[4]],
            &[],
            &[6],
            "the prompts have 1 and 3 tokens, and the dump's first call 6 rows: expected 4 rows, packed, or an \
             attention_mask that says where prompts are padded",
        ),
        (&[&[1, 2], &[4, 5]], &[], &[5], "call 0 has 5 rows, expected those of 2 requests, a list for each"),
        (&[&[1, 2], &[4]], &[7], &[3, 3], "call 1 has 3 rows, expected 2: one for each request's token"),
        (&[&[1, 2], &[4]], &[], &[3, 2], "the dump has call 1, and 0 decoded tokens of request 0 are known"),
    ] {
        assert_eq!(unstated(prompts, decoded, rows), said);
    }
}
