//! `--tokens` of a dump: one prompt or several, as tokenizers write them.

use fixtures::activations::rows::inferred::Fed;
use fixtures::activations::rows::stated::slots;
use serde_json::Value;

use crate::failure::Failure;

const HELP: &str = "give a list of token ids, a list of such lists, or a tokenizer's object: `input_ids` (or `tokens`), and of \
                    the same shape `attention_mask` and `position_ids`; what was decoded is `decode.tokens`";

/// What a list of tokens may be called: by us, and by tokenizers.
const NAMES: [&str; 2] = ["tokens", "input_ids"];

/// The prompts that are typed: numbers with commas, or `@` and the name of a JSON file.
pub fn prompts(text: &str) -> Result<Vec<Fed>, Failure> {
    let Some(file) = text.strip_prefix('@') else {
        let prompt = super::prompt::Prompt::parse(text)?;
        return Ok(vec![Fed::new(&prompt.tokens, &[])]);
    };
    let fed = of_json(&read_json(file)?).map_err(|problem| Failure::new(format!("{file}: {problem}")).help(HELP))?;
    if fed.iter().any(|fed| fed.tokens().is_empty()) {
        return Err(Failure::new(format!("{file}: the prompt is empty, expected at least one token")).help(HELP));
    }
    Ok(fed)
}

fn of_json(value: &Value) -> Result<Vec<Fed>, String> {
    let named = NAMES.iter().find_map(|name| Some((*name, value.get(name)?)));
    let (name, listed) = named.unwrap_or(("the file", value));
    let tokens: Vec<Vec<u32>> = lists(listed).ok_or_else(|| format!("{name} holds no list of token ids"))?;
    let of = |field: &str| value.get(field).map(|listed| (field.to_owned(), listed));
    let mask: Option<Vec<Vec<u8>>> = of("attention_mask").map(|(name, listed)| numbers(&name, listed)).transpose()?;
    let positions: Option<Vec<Vec<usize>>> =
        of("position_ids").map(|(name, listed)| numbers(&name, listed)).transpose()?;
    let decoded: Vec<Vec<u32>> = match value.pointer("/decode/tokens") {
        Some(listed) => numbers("decode.tokens", listed)?,
        None => vec![Vec::new(); tokens.len()],
    };
    require_lists("attention_mask", mask.as_ref().map(Vec::len), &tokens)?;
    require_lists("decode.tokens", Some(decoded.len()), &tokens)?;
    if positions.as_ref().is_none_or(|positions| positions.len() != 1) {
        require_lists("position_ids", positions.as_ref().map(Vec::len), &tokens)?;
    }
    let fed = tokens.iter().zip(decoded).enumerate().map(|(i, (tokens, decoded))| {
        let mask = mask.as_ref().map(|mask| mask[i].as_slice());
        if let Some(mask) = mask.filter(|mask| mask.len() != tokens.len()) {
            return Err(format!("prompt {i}: attention_mask has {} numbers, expected {}", mask.len(), tokens.len()));
        }
        let positions = positions.as_ref().map(|positions| positions[i.min(positions.len() - 1)].as_slice());
        let slots = slots(tokens, mask, positions).map_err(|problem| format!("prompt {i}: {problem}"))?;
        Ok(Fed { slots, decoded })
    });
    fed.collect()
}

fn require_lists(name: &str, found: Option<usize>, tokens: &[Vec<u32>]) -> Result<(), String> {
    match found.filter(|&found| found != tokens.len()) {
        Some(found) => Err(format!("{name} has {found} lists, expected {}: one for each prompt", tokens.len())),
        None => Ok(()),
    }
}

fn numbers<T: TryFrom<u64>>(name: &str, value: &Value) -> Result<Vec<Vec<T>>, String> {
    lists(value).ok_or_else(|| format!("{name} is no list of whole numbers, nor a list of such lists"))
}

/// Whole numbers in a list, or in several.
fn lists<T: TryFrom<u64>>(value: &Value) -> Option<Vec<Vec<T>>> {
    let listed = value.as_array()?;
    let list = |value: &Value| -> Option<Vec<T>> {
        value.as_array()?.iter().map(|number| T::try_from(number.as_u64()?).ok()).collect()
    };
    if !listed.is_empty() && listed.iter().all(Value::is_array) {
        return listed.iter().map(list).collect();
    }
    Some(vec![list(value)?])
}

/// A JSON file.
fn read_json(file: &str) -> Result<Value, Failure> {
    let bad = |problem: String| Failure::new(format!("{file}: {problem}")).help(HELP);
    let text = std::fs::read_to_string(file).map_err(|error| bad(format!("cannot be read: {error}")))?;
    serde_json::from_str(&text).map_err(|error| bad(format!("is not JSON: {error}")))
}
