//! Prompts that a dump shows itself: what went into the model, saved beside what came out.

use fixtures::Dtype;
use fixtures::activations::rows::inferred::Fed;
use fixtures::activations::rows::stated::slots;
use fixtures::names::sited::Sited;
use reference::config::Config;

use crate::failure::Failure;
use crate::session::rotated::first_position;

/// What people call the tensor of a prompt's tokens.
const TOKENS: [&str; 4] = ["input_ids", "tokens", "prompt_ids", "prompt_token_ids"];

/// The prompts that the tensors `input_ids` and `attention_mask` are of, \[T\] or \[B, T\]. None, where these are another call's:
/// of one token, or rotated by later positions than the dump's first call is.
pub(super) fn prompts(values: &Sited, config: &Config) -> Result<Option<Vec<Fed>>, Failure> {
    let Some((ids, width)) = first_of(values, &TOKENS)? else { return Ok(None) };
    let mask = numbers::<u8>(values, "attention_mask")?.filter(|(mask, of)| (mask.len(), *of) == (ids.len(), width));
    let mask: Option<Vec<u8>> = mask.map(|(mask, _)| mask);
    let lists = ids.len() / width.max(1);
    if width < 2 || first_position(values, config, 0, (lists, width)).is_some_and(|position| position > 0) {
        return Ok(None);
    }
    let list = |(number, tokens): (usize, &[u32])| {
        let mask = mask.as_ref().map(|mask| &mask[number * width..][..width]);
        Some(Fed { slots: slots(tokens, mask, None).ok()?, decoded: Vec::new() })
    };
    Ok(ids.chunks(width).enumerate().map(list).collect())
}

/// The first of these tensors that the dump has.
fn first_of(values: &Sited, names: &[&str]) -> Result<Option<(Vec<u32>, usize)>, Failure> {
    for name in names {
        if let Some(found) = numbers(values, name)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// A tensor of whole numbers in one list or in several, and how long each is.
fn numbers<N: TryFrom<i64>>(values: &Sited, name: &str) -> Result<Option<(Vec<N>, usize)>, Failure> {
    let is_whole = |dtype: Dtype| matches!(dtype, Dtype::I64 | Dtype::I32 | Dtype::U8 | Dtype::Bool);
    let is_of = |own: &&str| own.rsplit(['.', '/']).next() == Some(name);
    let mut found = values.dump().names().filter(is_of);
    let (Some(name), None) = (found.next(), found.next()) else { return Ok(None) };
    let Some(listed) = values.dump().find(name).filter(|listed| is_whole(listed.dtype)) else { return Ok(None) };
    let [.., width] = *listed.shape else { return Ok(None) };
    if listed.shape.len() > 2 {
        return Ok(None);
    }
    let tensor = values.dump().tensor(name)?;
    #[expect(clippy::cast_possible_truncation, reason = "token ids are whole and small")]
    let whole = tensor.values::<f64>().into_iter().map(|x| N::try_from(x as i64).ok());
    Ok(whole.collect::<Option<Vec<N>>>().map(|all| (all, width)))
}
