//! What servers answer who asks for log-probabilities: a few in each row, by ids, whose prompt may be said elsewhere.

use std::collections::BTreeMap;
use std::fs;

use reference::Storage;
use tools::session::dumped::open_dump;

use super::*;

/// Tokens of the golden case that were decoded.
const DECODED: usize = 4;

/// Tokens in each row, beside the one that came next.
const MOST: usize = 4;

/// The form that is told in full: the prompt's tokens, and log-probabilities of these, too.
const WHOLE: &str = "SGLang";

/// A token, and the log-probabilities of the likeliest and of itself in the row before it.
type Entry = (u32, BTreeMap<u32, f64>);

/// transformers' own logits of a case as entries of the tokens behind the first, the last of which is the likeliest.
fn entries(model: &Model) -> (Vec<u32>, Vec<Entry>) {
    let case = model.case.as_ref().expect("a built-in case");
    let (tokens, expected) = (case.tokens.clone(), case.expected().expect("it is there"));
    let logits = expected.tensor("logits").expect("it is there");
    let width = *logits.shape().last().expect("it has axes");
    let rows: Vec<Vec<f64>> = logits.values::<f64>().chunks(width).map(<[f64]>::to_vec).collect();
    let id = |token: usize| u32::try_from(token).expect("a small vocabulary");
    let entry = |(i, row): (usize, &Vec<f64>)| {
        let sum = row.iter().map(|z| z.exp()).sum::<f64>().ln();
        let mut order: Vec<usize> = (0..width).collect();
        order.sort_by(|a, b| row[*b].total_cmp(&row[*a]));
        let own = tokens.get(i + 1).copied().unwrap_or(id(order[0]));
        let shown = order[..MOST].iter().copied().chain([own as usize]);
        (own, shown.map(|token| (id(token), Storage::F32.nearest(row[token] - sum))).collect())
    };
    let all = rows.iter().enumerate().map(entry).collect();
    (tokens, all)
}

/// The forms in which servers say them, and whether each says the prompt.
fn answers(prompt: &[u32], entries: &[Entry]) -> Vec<(&'static str, Value, bool)> {
    let (of_prompt, decoded) = entries.split_at(prompt.len() - 1);
    let ids: Vec<u32> = decoded.iter().map(|(token, _)| *token).collect();
    let by_id = |(_, shown): &Entry| {
        shown.iter().map(|(id, log)| (id.to_string(), json!({ "logprob": log }))).collect::<Value>()
    };
    let text = |id: &u32| format!("token_id:{id}");
    let named = |(id, log): (&u32, &f64)| json!({ "token": text(id), "logprob": log });
    let numbered = |(id, log): (&u32, &f64)| json!({ "id": id, "token": "a", "logprob": log });
    let listed = |(id, log): (&u32, &f64)| json!([log, id, null]);
    let own = |(id, shown): &Entry| json!([shown[id], id, null]);
    let behind_nothing =
        |of: &dyn Fn(&Entry) -> Value| [json!(null)].into_iter().chain(of_prompt.iter().map(of)).collect::<Value>();
    let tops = |(_, shown): &Entry| shown.iter().map(listed).collect::<Value>();
    let first = [json!([null, prompt[0], null])].into_iter().chain(of_prompt.iter().map(own));
    vec![
        (
            "vLLM's request",
            json!([{
                "prompt_token_ids": prompt, "prompt_logprobs": behind_nothing(&by_id),
                "outputs": [{ "token_ids": ids, "logprobs": decoded.iter().map(by_id).collect::<Value>() }],
            }]),
            true,
        ),
        (
            "completions",
            json!({
                "choices": [{ "prompt_token_ids": prompt, "prompt_logprobs": null, "logprobs": {
                    "tokens": ids.iter().map(text).collect::<Value>(),
                    "token_logprobs": decoded.iter().map(|(id, shown)| json!(shown[id])).collect::<Value>(),
                    "top_logprobs": decoded.iter().map(|(_, shown)| {
                        shown.iter().map(|(id, log)| (text(id), json!(log))).collect::<Value>()
                    }).collect::<Value>(),
                } }],
            }),
            true,
        ),
        (
            "chat",
            json!({ "choices": [{ "logprobs": { "content": decoded.iter().map(|(id, shown)| json!({
            "token": text(id), "logprob": shown[id], "top_logprobs": shown.iter().map(named).collect::<Value>(),
        })).collect::<Value>() } }] }),
            false,
        ),
        (
            WHOLE,
            json!({ "meta_info": {
            "input_token_logprobs": first.collect::<Value>(), "input_top_logprobs": behind_nothing(&tops),
            "output_token_logprobs": decoded.iter().map(own).collect::<Value>(),
            "output_top_logprobs": decoded.iter().map(tops).collect::<Value>(),
        } }),
            true,
        ),
        (
            "llama.cpp",
            json!({ "completion_probabilities": decoded.iter().map(|(id, shown)| json!({
            "id": id, "logprob": shown[id], "top_logprobs": shown.iter().map(numbered).collect::<Value>(),
        })).collect::<Value>() }),
            false,
        ),
        (
            "TGI",
            json!({ "details": {
            "prefill": [],
            "tokens": decoded.iter().map(|(id, shown)| numbered((id, &shown[id]))).collect::<Value>(),
            "top_tokens": decoded.iter().map(|(_, shown)| shown.iter().map(numbered).collect::<Value>()).collect::<Value>(),
        } }),
            false,
        ),
    ]
}

/// What is said of an answer's one request by all lenses, and whether its precision is known; or why nothing is.
fn of_answer(model: &Model, answer: &Value, tokens: Option<&str>) -> Result<(Vec<SiteReport>, bool), String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("answer.json");
    fs::write(&path, answer.to_string()).expect("writable");
    let model = Model { case: None, ..open(&model.name) };
    let given = Given { tokens: tokens.map(str::to_owned), ..Given::default() };
    let dump = open_dump(Some(&path), &given, &model).map_err(|failure| failure.to_string())?;
    let found = Dumped::of(dump, &given, &model).map_err(|failure| failure.to_string())?;
    assert_eq!(found.len(), 1, "one request");
    Ok((reports(&model, &found[0]), found[0].known.unsure.is_none()))
}

#[test]
fn log_probabilities_of_some_tokens_are_compared() {
    for case in CASES {
        let model = open(case);
        let (tokens, right) = entries(&model);
        let prompt = &tokens[..tokens.len() - DECODED];
        let mut wrong = right.clone();
        let last = wrong.last_mut().expect("a row").1.values_mut().next().expect("a number");
        *last += 0.5;
        let all = answers(prompt, &right).into_iter().enumerate();
        // Of all forms the same is read: of one in each case it is found what is wrong.
        let some = all.filter(|(_, (name, ..))| case == CASES[0] || *name == WHOLE);
        for (number, (name, answer, says_prompt)) in some {
            let text = shown::text(prompt);
            let given = (!says_prompt).then_some(&text[..]);
            let (reports, is_sure) = of_answer(&model, &answer, given).expect("it is read");
            let what = format!("{case}, {name}");
            let are_right = reports.iter().all(|report| report.verdict <= Verdict::Tie);
            assert!(is_sure && are_right, "{what}: {reports:#?}");
            // As many numbers as it shows, and none of what it does not.
            let of_prompt =
                if answer.to_string().contains("prompt_logprobs\":[") || name == WHOLE { 0 } else { prompt.len() - 1 };
            let numbers: usize = right[of_prompt..].iter().map(|(_, shown)| shown.len()).sum();
            let local = reports.iter().filter(|report| report.lens == Lens::Local);
            assert_eq!(local.map(|report| report.count).sum::<usize>(), numbers, "{what}");
            if !says_prompt {
                let refused = of_answer(&model, &answer, None).expect_err("of which prompt?");
                assert!(refused.contains("no tokens are known"), "{what}: {refused}");
            }
            if name != WHOLE {
                continue;
            }
            let (_, answer, _) = answers(prompt, &wrong).swap_remove(number);
            let (reports, _) = of_answer(&model, &answer, given).expect("it is read");
            assert!(reports.iter().any(|report| report.verdict == Verdict::Fault), "{what}: {reports:#?}");
        }
    }
}

#[test]
fn several_answers_are_several_dumps() {
    let model = open(CASES[0]);
    let one = json!({ "logprobs": [{ "3": -1.0 }], "token_ids": [3] });
    for answer in [json!({ "choices": [one, one] }), json!([{ "outputs": [one] }, { "outputs": [one] }])] {
        let refused = of_answer(&model, &answer, Some("1,2,3")).expect_err("of which is it asked?");
        assert!(refused.contains("answers 2 times, expected one request and one choice"), "{refused}");
    }
}

#[test]
fn texts_are_no_tokens() {
    let model = open(CASES[0]);
    let content = json!([{ "token": " the", "logprob": -1.0, "top_logprobs": [{ "token": " a", "logprob": -2.0 }] }]);
    let answer = json!({ "choices": [{ "logprobs": { "content": content } }] });
    let refused = of_answer(&model, &answer, Some("1,2,3")).expect_err("no ids");
    assert!(refused.contains("tells log-probabilities by texts, expected ids of tokens"), "{refused}");
    let answer = json!({ "completion_probabilities": [{ "id": 100_000, "logprob": -1.0 }] });
    let refused = of_answer(&model, &answer, Some("1,2,3")).expect_err("another vocabulary");
    assert!(refused.contains("shows token 100000, expected below vocab_size"), "{refused}");
}
