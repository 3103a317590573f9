//! Prompts that a dump shows itself: what went into the model, saved beside what came out.

use fixtures::Dtype;
use fixtures::activations::rows::Slot;
use fixtures::activations::rows::inferred::Fed;
use fixtures::activations::rows::stated::prompts_of;
use fixtures::names::fed::{BEGINS, LENGTHS, MASK, POSITIONS, TOKENS};
use fixtures::names::sited::Sited;
use reference::config::Config;

use crate::failure::Failure;
use crate::session::inferred::is_unpadded;
use crate::session::rotated::first_position;

/// The prompts that the tensors `input_ids`, `attention_mask` and `position_ids` are of, \[T\] or \[B, T\]. None, where these are
/// another call's: of one token, or rotated by later positions than the dump's first call is.
pub(super) fn prompts(values: &Sited, config: &Config) -> Result<Option<Vec<Fed>>, Failure> {
    let Some((ids, width)) = first_of(values, &TOKENS)? else { return of_steps(values) };
    let mask = numbers::<u8>(values, MASK)?.filter(|(mask, of)| (mask.len(), *of) == (ids.len(), width));
    let mask: Option<Vec<u8>> = mask.map(|(mask, _)| mask);
    let positions = first_of::<usize>(values, &POSITIONS)?;
    let positions = positions.filter(|(own, of)| mask.is_none() && (own.len(), *of) == (ids.len(), width));
    let lists = ids.len() / width.max(1);
    if width < 2 || first_position(values, config, (0, 0), (lists, width)).is_some_and(|position| position > 0) {
        return Ok(None);
    }
    let list = |(number, tokens): (usize, &[u32])| {
        let own = number * width..(number + 1) * width;
        let mask = mask.as_ref().map(|mask| &mask[own.clone()]);
        prompts_of(tokens, mask, positions.as_ref().map(|(all, _)| &all[own])).ok()
    };
    let lists: Option<Vec<_>> = ids.chunks(width).enumerate().map(list).collect();
    let masked = mask.is_some();
    let fed = |slots| Fed { slots, decoded: Vec::new(), masked };
    let found: Option<Vec<Fed>> = lists.map(|lists| lists.into_iter().flatten().map(fed).collect());
    match found.as_deref() {
        Some([one]) => Ok(packed(values, one)?.or(found)),
        _ => Ok(found),
    }
}

/// A prompt and the tokens of the steps behind it, where each call has a tensor of its own: the first of several, the others of one.
fn of_steps(values: &Sited) -> Result<Option<Vec<Fed>>, Failure> {
    let each = of_each_call::<u32>(values, &TOKENS)?.unwrap_or_default();
    let Some((prompt, steps)) = each.split_first() else { return Ok(None) };
    let are_steps = prompt.len() > 1 && steps.iter().all(|step| step.len() == 1);
    Ok(are_steps.then(|| vec![Fed::new(prompt, &steps.concat())]))
}

/// The tokens of each call, where each has a tensor of its own: one list of several.
pub(super) fn of_calls(values: &Sited) -> Result<Option<Vec<Vec<u32>>>, Failure> {
    let each = of_each_call::<u32>(values, &TOKENS)?;
    Ok(each.filter(|each| each.iter().all(|tokens| tokens.len() > 1)))
}

/// The whole numbers of each of several calls, where each has a tensor of its own with one of these names, of one list.
pub(super) fn of_each_call<N: TryFrom<i64>>(values: &Sited, of: &[&str]) -> Result<Option<Vec<Vec<N>>>, Failure> {
    let calls = values.sizes().len();
    let is_one = |name: &&str| name.rsplit(['.', '/']).next().is_some_and(|last| of.contains(&last));
    let mut names: Vec<&str> = values.dump().names().filter(is_one).collect();
    let number = |name: &str| name.chars().filter(char::is_ascii_digit).collect::<String>().parse::<usize>().ok();
    names.sort_by_key(|name| number(name));
    if calls < 2 || names.len() != calls {
        return Ok(None);
    }
    let each = names.into_iter().map(|name| whole::<N>(values, name));
    let each: Option<Vec<(Vec<N>, usize)>> = each.collect::<Result<_, _>>()?;
    let are_lists = |each: &Vec<(Vec<N>, usize)>| each.iter().all(|(all, width)| all.len() == *width && *width > 0);
    Ok(each.filter(are_lists).map(|each| each.into_iter().map(|(all, _)| all).collect()))
}

/// The prompts that stand one behind the other in what is known of one, where `position_ids` of all of its tokens begin at 0 again, or where
/// it is said at which of them each begins.
pub(super) fn packed(values: &Sited, known: &Fed) -> Result<Option<Vec<Fed>>, Failure> {
    let tokens = known.tokens();
    let is_whole = is_unpadded(known) && known.decoded.is_empty();
    let begins = match first_of::<usize>(values, &BEGINS)? {
        Some((begins, _)) => Some(begins),
        None => first_of::<usize>(values, &LENGTHS)?.map(|(lengths, _)| summed(&lengths)),
    };
    if let Some(begins) = begins
        && is_whole
        && begins.len() > 2
        && (begins[0], begins.last()) == (0, Some(&tokens.len()))
        && begins.windows(2).all(|pair| pair[0] < pair[1])
    {
        let prompt = |pair: &[usize]| Fed::new(&tokens[pair[0]..pair[1]], &[]);
        return Ok(Some(begins.windows(2).map(prompt).collect()));
    }
    let positions = first_of::<usize>(values, &POSITIONS)?.filter(|(own, of)| is_whole && own.len() == *of);
    let Some((positions, _)) = positions.filter(|(own, _)| own.len() == tokens.len()) else { return Ok(None) };
    let Ok(prompts) = prompts_of(&tokens, None, Some(&positions)) else { return Ok(None) };
    let counts = |(i, slot): (usize, &Option<Slot>)| slot.is_some_and(|slot| slot.position == Some(i));
    let are_counted = prompts.iter().all(|prompt| prompt.iter().enumerate().all(counts));
    let fed = |slots| Fed { slots, ..known.clone() };
    Ok((prompts.len() > 1 && are_counted).then(|| prompts.into_iter().map(fed).collect()))
}

/// Where each of several begins that stand one behind the other, and where the last one ends.
fn summed(lengths: &[usize]) -> Vec<usize> {
    let ends = lengths.iter().scan(0_usize, |end, length| {
        *end = end.saturating_add(*length);
        Some(*end)
    });
    [0].into_iter().chain(ends).collect()
}

/// The first of these tensors that the dump has.
fn first_of<N: TryFrom<i64>>(values: &Sited, names: &[&str]) -> Result<Option<(Vec<N>, usize)>, Failure> {
    for name in names {
        if let Some(found) = numbers(values, name)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// A tensor of whole numbers in one list or in several, and how long each is.
fn numbers<N: TryFrom<i64>>(values: &Sited, name: &str) -> Result<Option<(Vec<N>, usize)>, Failure> {
    values.dump().ending_in(name).map_or(Ok(None), |name| whole(values, name))
}

/// The same, of the tensor with this whole name.
fn whole<N: TryFrom<i64>>(values: &Sited, name: &str) -> Result<Option<(Vec<N>, usize)>, Failure> {
    let is_whole = |dtype: Dtype| matches!(dtype, Dtype::I64 | Dtype::I32 | Dtype::U8 | Dtype::Bool);
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
