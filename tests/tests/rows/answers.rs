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

/// A form in which servers say them.
struct Form {
    name: &'static str,
    answer: Value,
    /// Whether it says the prompt's tokens.
    says_prompt: bool,
    /// Whether it says log-probabilities of these, too.
    shows_prompt: bool,
}

fn answers(prompt: &[u32], entries: &[Entry]) -> Vec<Form> {
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
    let form = |name, [says_prompt, shows_prompt]: [bool; 2], answer| Form { name, answer, says_prompt, shows_prompt };
    let all = |entry: &dyn Fn(&Entry) -> Value| decoded.iter().map(entry).collect::<Value>();
    let by_text = |(_, shown): &Entry| shown.iter().map(|(id, log)| (text(id), json!(log))).collect::<Value>();
    let numbers = |(_, shown): &Entry| shown.iter().map(numbered).collect::<Value>();
    let of_chat = |(id, shown): &Entry| {
        let tops = shown.iter().map(named).collect::<Value>();
        json!({ "token": text(id), "logprob": shown[id], "top_logprobs": tops })
    };
    let of_llama =
        |entry: &Entry| json!({ "id": entry.0, "logprob": entry.1[&entry.0], "top_logprobs": numbers(entry) });
    let of_tgi = |(id, shown): &Entry| numbered((id, &shown[id]));
    let of_request = json!({ "token_ids": ids, "logprobs": all(&by_id) });
    let of_completion = json!({
        "tokens": ids.iter().map(text).collect::<Value>(),
        "token_logprobs": all(&|(id, shown)| json!(shown[id])),
        "top_logprobs": all(&by_text),
    });
    // Of what was asked for with `echo` it does not say where the prompt ends.
    let echo = |first: Value, of: &dyn Fn(&Entry) -> Value| {
        [first].into_iter().chain(entries.iter().map(of)).collect::<Value>()
    };
    let echoed = json!({ "choices": [{ "logprobs": {
        "tokens": echo(json!(text(&prompt[0])), &|(id, _)| json!(text(id))),
        "token_logprobs": echo(json!(null), &|(id, shown)| json!(shown[id])),
        "top_logprobs": echo(json!(null), &by_text),
    } }] });
    let of_sglang = json!({
        "input_token_logprobs": first.collect::<Value>(),
        "input_top_logprobs": behind_nothing(&tops),
        "output_token_logprobs": all(&own),
        "output_top_logprobs": all(&tops),
    });
    let requests = json!([{
        "prompt_token_ids": prompt, "prompt_logprobs": behind_nothing(&by_id), "outputs": [of_request],
    }]);
    let completion = json!({ "choices": [{ "prompt_token_ids": prompt, "logprobs": of_completion }] });
    let chat = json!({ "choices": [{ "logprobs": { "content": all(&of_chat) } }] });
    let tgi = json!({ "details": { "prefill": [], "tokens": all(&of_tgi), "top_tokens": all(&numbers) } });
    vec![
        form("vLLM's requests", [true, true], requests),
        form("completions", [true, false], completion),
        form("completions, echoed", [true, true], echoed),
        form("chat", [false, false], chat),
        form(WHOLE, [true, true], json!({ "meta_info": of_sglang })),
        form("llama.cpp", [false, false], json!({ "completion_probabilities": all(&of_llama) })),
        form("TGI", [false, false], tgi),
    ]
}

/// What is said of an answer's one request by all lenses, and why its precision is not known, if so; or why nothing is said.
fn of_answer(model: &Model, answer: &Value, tokens: Option<&str>) -> Result<(Vec<SiteReport>, Option<String>), String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("answer.json");
    fs::write(&path, answer.to_string()).expect("writable");
    let model = Model { case: None, ..open(&model.name) };
    let given = Given { tokens: tokens.map(str::to_owned), ..Given::default() };
    let dump = open_dump(Some(&path), &given, &model).map_err(|failure| failure.to_string())?;
    let found = Dumped::of(dump, &given, &model).map_err(|failure| failure.to_string())?;
    assert_eq!(found.len(), 1, "one request");
    Ok((reports(&model, &found[0]), found[0].known.unsure.clone()))
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
        // Of all forms the same is read: of one in each case it is found what is wrong.
        let some = answers(prompt, &right).into_iter().filter(|form| case == CASES[0] || form.name == WHOLE);
        for Form { name, answer, says_prompt, shows_prompt } in some {
            let text = shown::text(prompt);
            let given = (!says_prompt).then_some(&text[..]);
            let (reports, unsure) = of_answer(&model, &answer, given).expect("it is read");
            let what = format!("{case}, {name}");
            let are_right = reports.iter().all(|report| report.verdict <= Verdict::Tie);
            assert!(unsure.is_none() && are_right, "{what}: {reports:#?}");
            // As many numbers as it shows, and none of what it does not.
            let from = if shows_prompt { 0 } else { prompt.len() - 1 };
            let numbers: usize = right[from..].iter().map(|(_, shown)| shown.len()).sum();
            let local = reports.iter().filter(|report| report.lens == Lens::Local);
            assert_eq!(local.map(|report| report.count).sum::<usize>(), numbers, "{what}");
            if !says_prompt {
                let refused = of_answer(&model, &answer, None).expect_err("of which prompt?");
                assert!(refused.contains("no tokens are known"), "{what}: {refused}");
            }
        }
        let (reports, _) = of_answer(&model, &in_full(prompt, &wrong), None).expect("it is read");
        assert!(reports.iter().any(|report| report.verdict == Verdict::Fault), "{case}: {reports:#?}");
    }
}

/// Of the form that is told in full.
fn in_full(prompt: &[u32], entries: &[Entry]) -> Value {
    answers(prompt, entries).into_iter().find(|form| form.name == WHOLE).expect("it is one of them").answer
}

/// A row without a number says nothing; it is neither right nor wrong.
#[test]
fn a_token_of_which_nothing_is_shown_is_inconclusive() {
    let model = open(CASES[0]);
    let (tokens, mut entries) = entries(&model);
    let prompt = &tokens[..tokens.len() - DECODED];
    let last = entries.last_mut().expect("a row");
    let own = last.0;
    last.1 = BTreeMap::from([(own, -9999.0)]);
    let (reports, _) = of_answer(&model, &in_full(prompt, &entries), None).expect("it is read");
    let of_last: Vec<&SiteReport> = reports.iter().filter(|report| report.step == DECODED).collect();
    let says_nothing = |report: &&SiteReport| report.verdict == Verdict::Inconclusive && report.count == 0;
    assert!(!of_last.is_empty() && of_last.iter().all(says_nothing), "{of_last:#?}");
}

/// A few numbers may have been made in any precision but the finest.
#[test]
fn log_probabilities_of_a_run_in_bf16_leave_its_precision_open() {
    let model = open("m3-sharded-bf16");
    let (tokens, entries) = entries(&model);
    let prompt = &tokens[..tokens.len() - DECODED];
    let (reports, unsure) = of_answer(&model, &in_full(prompt, &entries), None).expect("it is read");
    assert!(unsure.as_ref().is_some_and(|why| why.contains("too few to tell")), "{unsure:?}");
    assert!(reports.iter().all(|report| report.verdict != Verdict::Fault), "{reports:#?}");
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
