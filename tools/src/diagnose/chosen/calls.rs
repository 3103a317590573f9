//! Calls of one token that have the choice of an earlier call: a buffer that was not written anew, as where a graph is replayed.

use ndarray::Array2;

use super::barred::{Set, TIES, sets};
use crate::judge::rechosen::Rechosen;

/// The chance of as many choices that are off being those of an earlier call, if each is drawn at random, below which it is none.
const CHANCE: f64 = 1e-6;

/// Whose choice a call of one token may have: in words, the step of a call before it, and whether what that shows or what is right.
const WHOSE: [(&str, Earlier, bool); 4] = [
    ("was right for the last token of the call before", |step| step - 1, false),
    ("was right for the last token of the first call", |_| 0, false),
    ("is shown of the last token of the call before", |step| step - 1, true),
    ("is shown of the last token of the first call", |_| 0, true),
];

/// The step of a call before one.
type Earlier = fn(usize) -> usize;

/// What may be chosen.
#[derive(Debug, Clone, Copy)]
pub(super) enum Of {
    /// Experts, so many.
    Experts(usize),
    /// Blocks of so many keys, a token's own of which is chosen anew.
    Blocks(usize),
}

/// A choice of a call of one token, without what is chosen anew.
struct Choice {
    own: Set,
    candidate: Set,
    /// All that the earlier call has.
    earlier: Set,
    /// How many there are to choose from.
    all: usize,
}

impl Choice {
    fn holds(&self) -> bool {
        self.candidate.is_subset(&self.earlier)
    }

    /// The share of all choices of this size that have nothing but what the earlier one has.
    fn chance(&self) -> f64 {
        let of = |from: usize| (0..self.candidate.len()).map(|i| from.saturating_sub(i) as f64).product::<f64>();
        of(self.earlier.len()) / of(self.all).max(1.0)
    }
}

/// What is said of a site's passes, each of which begins at a position, if a rule holds in next to all calls of one token.
pub(super) fn told(passes: &[Rechosen], begins: impl Fn(usize) -> usize, of: Of) -> Option<String> {
    let choices = |earlier: Earlier, is_shown: bool| -> Vec<Choice> {
        let single = passes.iter().filter(|pass| pass.tokens == 1 && pass.step > 0);
        let each = single.filter_map(|pass| {
            let before = passes.iter().find(|before| before.step == earlier(pass.step))?;
            Some(choices(pass, last(before, is_shown), begins(pass.step), of))
        });
        each.flatten().collect()
    };
    WHOSE.into_iter().find_map(|(whose, earlier, is_shown)| {
        let all = choices(earlier, is_shown);
        let off: Vec<&Choice> = all.iter().filter(|choice| choice.own != choice.candidate).collect();
        let follow: Vec<&&Choice> = off.iter().filter(|choice| choice.holds()).collect();
        let against = all.iter().filter(|choice| !choice.holds()).count();
        let chance: f64 = follow.iter().map(|choice| choice.chance()).product();
        let is_rule = TIES * (off.len() - follow.len()) <= off.len() && TIES * against <= all.len() && chance < CHANCE;
        let (count, off) = (follow.len(), off.len());
        is_rule.then(|| {
            format!("each call of one token has the choice that {whose}: {count} of {off} choices that are off")
        })
    })
}

/// Each chooser's choice in a call of one token at a position, beside those of an earlier call.
fn choices(pass: &Rechosen, earlier: Vec<Set>, position: usize, of: Of) -> Vec<Choice> {
    let (anew, all) = match of {
        Of::Experts(experts) => (None, experts),
        Of::Blocks(size) => (Some(position / size.max(1)), position / size.max(1)),
    };
    let kept = |choices: &Array2<usize>| -> Vec<Set> {
        let without = |set: Set| set.into_iter().filter(|choice| Some(*choice) != anew).collect();
        sets(choices).into_iter().map(without).collect()
    };
    let both = kept(&pass.own).into_iter().zip(kept(&pass.candidate));
    both.zip(earlier).map(|((own, candidate), earlier)| Choice { own, candidate, earlier, all }).collect()
}

/// What each chooser has for the last token of a call.
fn last(pass: &Rechosen, is_shown: bool) -> Vec<Set> {
    let (choices, tokens) = (if is_shown { &pass.candidate } else { &pass.own }, pass.tokens.max(1));
    sets(choices).into_iter().skip(tokens - 1).step_by(tokens).collect()
}
