//! Several prompts that were run one after another, of which a manifest states the tokens and where each call began.

use super::*;

/// What is read with nothing in the cache is another prompt, unless it is the one before and more. Of those that were run, one may be
/// said, and the others were run beside it.
#[test]
fn prompts_that_were_run_one_after_another() {
    let more = [&A[..], &[8]].concat();
    for case in CASES {
        let model = open(case);
        let call = |tokens: &[u32], first: usize| json!({ "tokens": [tokens], "first": first });
        let one_by_one = || vec![call(&A, 0), call(&[8], 7), call(&B, 0), call(&[3], 4), call(&B, 0)];
        let found = of(&whole(&model, one_by_one()));
        assert_right(case, &found, 3);
        assert_right(&format!("{case} without a cache"), &of(&whole(&model, vec![call(&A, 0), call(&more, 0)])), 1);
        assert_right(&format!("{case}, one said"), &of_file(&whole(&model, one_by_one()), &json!({ "tokens": B })), 3);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dump = whole(&model, one_by_one()).write(folder.path());
        let given = Given { tokens: Some("1,2,3".into()), ..Given::default() };
        let failed = Dumped::of(dump, &given, &model).expect_err("no prompt is this").to_string();
        assert_eq!(failed, "the dump has rows of 3 requests, and 1 prompt came with it");
    }
}
