//! The calls of a dump whose manifest does not state them: from the prompts that are known, the shapes of its tensors, and where
//! these are not enough, from what it shows of its own rows: the tokens by their embeddings, positions by the rotation table.
//!
//! ```text
//! all rows, in order           tokens that nobody named are read from their embeddings, of each request of a batch
//! a call from position 0 on    reads anew: a model without a cache, or one that is called twice
//! a call from before the end   of the one before it: what that read from there on were drafts, which were rejected
//! rows of the last call alone  are those of the position that they are rotated by, or at which their tokens are said; what came before
//!                              is not in the dump, and follows from the tokens where these are said
//! a call of each prompt        and steps behind it: prompts of a loop over `generate`
//! all prompts in the first     and a row of each in every step: requests that a server runs together
//! a batch of one prompt        each list of slots has it
//! rows of one token before it  are padding of a batch whose other lists are not in the dump
//! rows behind each step's      are of nobody, where they can be no drafts
//! logits behind prompts        nobody says what was decoded: each row's likeliest, where the reference's behind these are near
//! logits of fewer rows         are of the last ones; of a generation, of its prompt's last and of what followed; or of those tokens at
//!                              which the reference's are much nearer
//! other values of fewer rows   without embeddings: of the tokens at which the reference's are much nearer than at all others
//! ```

use std::ops::Range;

use fixtures::activations::manifest::Manifest;
use fixtures::activations::rows::inferred::{self, Fed, Size};
use fixtures::activations::rows::{Call, Segment, Slot};
use fixtures::names::sited::Sited;
use reference::{Semantics, Site};

use crate::failure::Failure;
use crate::session::drafted;
use crate::session::embedded::{self, Lists};
use crate::session::graphed::graphed;
use crate::session::greedy::of_decoded;
use crate::session::inferred::{Inferred, all_of, is_unpadded, misfit, require_same, require_same_from, without_last};
use crate::session::lasts::{lasts, shows_inside};
use crate::session::looped::looped;
use crate::session::model::Model;
use crate::session::prompt::HELP;
use crate::session::rotated::first_position;
use crate::session::served::served;
use crate::session::window::{of_logits, of_rows};

/// The calls that follow from the prompts that are known, from all tokens that the manifest lists, or where these are too few or too
/// many, from what is shown.
pub(super) fn infer(
    values: &Sited,
    known: Option<&[Fed]>,
    (model, semantics): (&Model, &Semantics),
    manifest: Option<&Manifest>,
) -> Result<Inferred, Failure> {
    let ordered = known.map(|known| embedded::in_order(known, values, model)).transpose()?;
    let known = ordered.as_deref();
    let listed = manifest.and_then(|manifest| manifest.tokens.as_deref()).filter(|listed| !listed.is_empty());
    let fed = match (known, listed) {
        (Some([one]), Some(listed)) => {
            let given = all_of(one);
            require_same(&given, listed)?;
            if is_unpadded(one) && given.len() < listed.len() { vec![Fed::new(listed, &[])] } else { vec![one.clone()] }
        }
        (Some(known), _) => known.to_vec(),
        (None, Some(listed)) => vec![Fed::new(listed, &[])],
        (None, None) => Vec::new(),
    };
    let sizes = sizes_of_prompts(values);
    let problem = match inferred::calls(&fed, &sizes) {
        Err(_) if fed.is_empty() => Failure::new(format!("{}: no tokens are known", model.name)).help(HELP),
        Ok(calls) => {
            let known = known.map(<[Fed]>::to_vec);
            return Ok(Inferred { calls, known, ..Inferred::default() });
        }
        Err(problem) => misfit(problem),
    };
    let lists = embedded::tokens(values, model)?;
    if let Some(calls) = graphed(&fed, lists.as_deref()) {
        return Ok(Inferred { known: known.map(<[Fed]>::to_vec), ..calls });
    }
    let shows_tokens = lists.as_ref().is_some_and(|calls| calls.iter().flatten().flatten().all(Option::is_some));
    if !shows_tokens && let Some(found) = of_decoded(values, &fed, &sizes, (model, semantics))? {
        return Ok(found);
    }
    if let [one] = &fed[..]
        && let Some(found) = of_logits(values, one, &sizes, (model, semantics))?
    {
        return Ok(found);
    }
    if let ([one], false) = (&fed[..], shows_tokens)
        && let Some(found) = of_rows(values, one, &sizes, (model, semantics))?
    {
        return Ok(found);
    }
    if let Some(found) = lasts(&fed, &sizes, (values, lists.as_deref()), model) {
        return Ok(found);
    }
    let of_several = || served(&fed, &sizes, lists.as_deref());
    if let Some(found) = looped(&fed, &sizes, lists.as_deref()).or_else(of_several) {
        return Ok(found);
    }
    let Some(mut shown) = lists.and_then(|lists| Shown::of(values, model, lists, &sizes)) else {
        return without_last(&fed, &sizes).ok_or(problem);
    };
    let fed = shown.spread(&fed);
    if fed.iter().all(|one| one.slots.is_empty()) {
        shown.require_places(&fed)?;
    }
    shown.place_drafts(&fed);
    shown.require_said(&fed)?;
    if let Some(found) = shown.continued(&fed, &sizes)? {
        return Ok(Inferred { known: known.is_some().then(|| fed.clone()), ..found });
    }
    shown.placed(&fed)?.or_else(|| without_last(&fed, &sizes)).ok_or(problem)
}

/// The rows of each call; of a first call that shows logits alone, these may be of its last rows, and say nothing of the others.
fn sizes_of_prompts(values: &Sited) -> Vec<Size> {
    let mut sizes = values.sizes();
    let of_first = || values.sites().filter(|at| at.step == 0);
    if of_first().all(|at| matches!(at.site, Site::LmHead | Site::Logits))
        && let Some(first) = sizes.first_mut().filter(|first| first.rows == Some(1))
    {
        *first = Size::default();
    }
    sizes
}

/// What a dump shows of its own rows.
struct Shown {
    /// The tokens of each slot of each list of each call.
    calls: Vec<Lists>,
    /// The position of each call's first slot, where it is shown.
    positions: Vec<Option<usize>>,
    /// Whether each operator is judged by itself.
    is_inside: bool,
}

impl Shown {
    /// Nothing, where calls have different numbers of lists.
    fn of(values: &Sited, model: &Model, calls: Vec<Lists>, sizes: &[Size]) -> Option<Self> {
        let lists = calls.first()?.len();
        if lists == 0 || calls.iter().any(|call| call.len() != lists) {
            return None;
        }
        let place = |number: usize| {
            let width = |size: &Size| size.rows.unwrap_or(0) / lists;
            let before = sizes[..number].iter().map(width).sum();
            first_position(values, model.checkpoint.config(), (number, before), (lists, width(&sizes[number])))
        };
        let positions = (0..sizes.len()).map(place).collect();
        Some(Shown { calls, positions, is_inside: shows_inside(values) })
    }

    fn lists(&self) -> usize {
        self.calls[0].len()
    }

    /// Takes positions from what was said of one prompt, where some are not shown.
    fn place_drafts(&mut self, fed: &[Fed]) {
        let [one] = fed else { return };
        let one_list = |call: &Lists| if let [list] = &call[..] { list.iter().copied().collect() } else { None };
        let Some(calls) = self.calls.iter().map(one_list).collect::<Option<Vec<Vec<u32>>>>() else { return };
        if self.positions.contains(&None)
            && is_unpadded(one)
            && let Some(positions) = drafted::positions(&all_of(one), &calls)
        {
            self.positions = positions.into_iter().map(Some).collect();
        }
    }

    /// How many tokens of a call at a position were kept, at least: those before the next call's. Of drafts in the last call nobody
    /// knows, where some before them were rejected.
    fn kept(&self, call: usize, position: usize) -> usize {
        let width = self.calls[call][0].len();
        let is_within = |next: &usize| (position + 1..position + width).contains(next);
        match self.positions.get(call + 1) {
            Some(next) => next.filter(is_within).map_or(width, |next| next - position),
            None if self.has_rejected() => 1,
            None => width,
        }
    }

    /// Whether a call begins within the one before it.
    fn has_rejected(&self) -> bool {
        let mut pairs = self.positions.windows(2).zip(&self.calls);
        pairs.any(|(pair, call)| matches!(pair, [Some(one), Some(next)] if *one < *next && *next < one + call[0].len()))
    }

    /// A prompt for each list: of a batch of one prompt, each has it; where none is known, nothing is said of each.
    fn spread(&self, fed: &[Fed]) -> Vec<Fed> {
        let lists = self.lists();
        match fed {
            [] if lists == 1 || self.calls[0].iter().all(|list| *list == self.calls[0][0]) => {
                vec![Fed::default(); lists]
            }
            [one] if lists > 1 => vec![one.clone(); lists],
            [one] => vec![self.behind_padding(one)],
            _ if self.is_ragged(fed) => (0..lists).map(|list| self.padded(list, &fed[list])).collect(),
            _ => fed.to_vec(),
        }
    }

    /// Whether some of a batch's prompts fill their lists of slots, and others do not.
    fn is_ragged(&self, fed: &[Fed]) -> bool {
        let fills: Vec<bool> =
            fed.iter().zip(&self.calls[0]).map(|(one, list)| one.slots.len() == list.len()).collect();
        fed.len() == self.lists() && fills.contains(&true) && fills.contains(&false)
    }

    /// A prompt that is shorter than its list of slots and was padded, on the side on which the list shows it, if that is one side
    /// alone.
    fn padded(&self, list: usize, one: &Fed) -> Fed {
        let (width, own) = (self.calls[0][list].len(), one.slots.len());
        if own == 0 || own >= width || !is_unpadded(one) {
            return one.clone();
        }
        let is_at = |first: &usize| {
            let shown = &self.calls[0][list][*first..*first + own];
            one.tokens().into_iter().zip(shown).all(|(said, shown)| Some(said) == *shown)
        };
        let sides: Vec<usize> = [0, width - own].into_iter().filter(is_at).collect();
        let [first] = sides[..] else { return one.clone() };
        let (before, after) = (vec![None; first], vec![None; width - own - first]);
        Fed { slots: [before, one.slots.clone(), after].concat(), ..one.clone() }
    }

    /// A prompt that stands behind rows of one token, as one list of a batch does that was padded on the left; a row alone may be that of a
    /// token that begins all texts, and that nobody gave.
    fn behind_padding(&self, one: &Fed) -> Fed {
        let (padded, shown) = (self.padded(0, one), &self.calls[0][0]);
        let filled = padded.slots.iter().take_while(|slot| slot.is_none()).count();
        let are_alike = filled > 1 && shown[..filled].iter().all(|token| *token == shown[0]);
        if are_alike { padded } else { one.clone() }
    }

    /// The calls, if every request goes on from call to call; and each request's tokens.
    fn continued(&self, fed: &[Fed], sizes: &[Size]) -> Result<Option<Inferred>, Failure> {
        let lists = self.lists();
        let is_later = fed.iter().all(|one| one.slots.is_empty()) && self.positions[0].is_some_and(|first| first > 0);
        let goes_back =
            |call: usize| self.begins_anew(call, fed) || self.rejected(call, fed, self.behind(call)).is_some();
        if fed.len() != lists || is_later || (1..self.calls.len()).any(goes_back) {
            return Ok(None);
        }
        let mut requests = Vec::with_capacity(lists);
        let mut embedded = 0;
        for (list, one) in fed.iter().enumerate() {
            let shown: Vec<Option<u32>> = self.calls.iter().flat_map(|call| call[list].clone()).collect();
            let said: Vec<Option<u32>> = one.slots.iter().map(|slot| slot.map(|slot| slot.token)).collect();
            let said = [said, one.decoded.iter().copied().map(Some).collect()].concat();
            let differs = said.iter().zip(&shown).any(|(said, shown)| said.is_some() && said != shown);
            let Some(rest) = shown.get(said.len()..).filter(|_| !differs) else { return Ok(None) };
            let Some(rest) = rest.iter().copied().collect::<Option<Vec<u32>>>() else { return Ok(None) };
            embedded += rest.len();
            requests.push(if one.slots.is_empty() {
                let width = self.calls[0][list].len();
                Fed::new(&rest[..width], &rest[width..])
            } else {
                Fed { decoded: [one.decoded.clone(), rest].concat(), ..one.clone() }
            });
        }
        let calls = inferred::calls(&requests, sizes).map_err(misfit)?;
        Ok(Some(Inferred { calls, embedded, ..Inferred::default() }))
    }

    /// Demands that it shows where calls begin of which nobody says the tokens.
    fn require_places(&self, fed: &[Fed]) -> Result<(), Failure> {
        let width = |call: usize| self.calls[call][0].len();
        let is_unknown = |call: &usize| self.positions[*call].is_none() && width(*call) > 1;
        let may_be_another = |call: &usize| is_unknown(call) && !self.begins_anew(*call, fed);
        let problem = if self.positions[0].is_some() {
            return Ok(());
        } else if width(0) == 1 {
            "the dump's first call has one row: the last of a prompt, or of all that was decoded".to_owned()
        } else if let Some(call) = (1..self.calls.len()).find(may_be_another) {
            format!("call {call} of the dump has {} rows: a prompt of its own, or more of the first one", width(call))
        } else {
            return Ok(());
        };
        let help =
            "give --tokens: the prompt from its first token on, and what was decoded; or dump model.rotary_emb, too";
        Err(Failure::new(format!("{problem}; no value shows its position")).help(help))
    }

    /// Demands that calls of several rows behind the prompt are said, or show their positions: they may be more of it, or drafts.
    fn require_said(&self, fed: &[Fed]) -> Result<(), Failure> {
        let [one] = fed else { return Ok(()) };
        let shown = self.calls.iter().flat_map(|call| &call[0]);
        if one.tokens().iter().zip(shown).any(|(said, shown)| Some(*said) != *shown) {
            return Ok(()); // other tokens
        }
        let (said, mut first) = (all_of(one).len(), 0);
        for (call, lists) in self.calls.iter().enumerate() {
            let width = lists[0].len();
            let is_unsaid = call > 0 && width > 1 && said > 0 && first >= said;
            if is_unsaid && self.positions[call].is_none() && !self.begins_anew(call, fed) {
                let problem = format!(
                    "call {call} of the dump has {width} rows that nobody says: more of the prompt, or drafts, of which some may \
                     have been rejected"
                );
                let help = "give --tokens all that was fed, or that generate returned; or dump model.rotary_emb, too";
                return Err(Failure::new(problem).help(help));
            }
            first += width;
        }
        Ok(())
    }

    /// Whether a call begins at position 0 again: it is rotated so, or where that is not shown, it has all of the first call's
    /// tokens. A prompt whose tokens are said and go on there is fed in chunks, whatever it is rotated by; a single row is a step.
    fn begins_anew(&self, call: usize, fed: &[Fed]) -> bool {
        let before: usize = self.calls[..call].iter().map(|call| call[0].len()).sum();
        let goes_on = |(one, list): (&Fed, &Vec<Option<u32>>)| {
            let all = all_of(one);
            let next = all.get(before..).unwrap_or_default();
            !next.is_empty() && next.iter().zip(list).all(|(said, shown)| Some(*said) == *shown)
        };
        let (first, own) = (&self.calls[0], &self.calls[call]);
        let repeats = || first.iter().zip(own).all(|(first, own)| first.len() > 1 && own.starts_with(first));
        let is_first = self.positions[call].map_or_else(repeats, |position| position == 0);
        own[0].len() > 1 && is_first && !fed.iter().zip(own).any(goes_on) && fed.iter().all(is_unpadded)
    }

    /// Where the call before one begins and ends, if each goes on behind those before it.
    fn behind(&self, call: usize) -> Range<usize> {
        let end = self.calls[..call].iter().map(|call| call[0].len()).sum();
        end - self.calls[call - 1][0].len()..end
    }

    /// The position of a call, where it goes on from within the `last` one, of which it rejects the drafts behind: of one prompt, whose
    /// tokens do not say that it goes on behind that.
    fn rejected(&self, call: usize, fed: &[Fed], last: Range<usize>) -> Option<usize> {
        let ([list], [one]) = (&self.calls[call][..], fed) else { return None };
        let position = self.positions[call].filter(|position| last.start < *position && *position < last.end)?;
        let said = all_of(one);
        let is_at = |from: usize, list: &[Option<u32>]| {
            let known = said.get(from..).unwrap_or_default();
            known.iter().zip(list).all(|(said, shown)| Some(*said) == *shown)
        };
        // What read other tokens than were said kept none of these, and nothing goes on behind them.
        let before = &self.calls[call - 1][0];
        let goes_on = said.len() > last.end && is_at(last.end, list) && is_at(last.start, before);
        // Of a prompt that nobody says, a call of one row from within may be one that counts wrongly.
        let has_drafts = || self.calls[1..].iter().any(|call| call[0].len() > 1);
        let is_decoded = last.start > 0 || !said.is_empty() || has_drafts();
        (is_unpadded(one) && is_decoded && is_at(position, &list[..self.kept(call, position)]) && !goes_on)
            .then_some(position)
    }

    /// The calls, each at the position that it shows; of prompts without padding.
    fn placed(&self, fed: &[Fed]) -> Result<Option<Inferred>, Failure> {
        if fed.len() != self.lists() || !fed.iter().all(is_unpadded) {
            return Ok(None);
        }
        let said: Vec<Vec<u32>> = fed.iter().map(all_of).collect();
        let rows: usize = self.calls.iter().map(|call| call[0].len()).sum();
        let all = || said.iter().all(|said| said.len() <= rows).then_some(0);
        let Some(first) = self.positions[0].or_else(|| self.found_in(&said)).or_else(all) else { return Ok(None) };
        // What the first rows of all attended to follows from tokens that are said.
        let said_before = said.iter().all(|said| said.len() > first);
        let is_whole = first > 0 && said_before && !self.is_inside;
        let (mut calls, mut last, mut embedded) = (Vec::new(), first..first, 0);
        for (number, lists) in self.calls.iter().enumerate() {
            let width = lists[0].len();
            let ahead = if number == 0 && is_whole { first } else { 0 };
            let is_anew = number > 0 && self.begins_anew(number, fed);
            let rejected = if number > 0 { self.rejected(number, fed, last.clone()) } else { None };
            let start = if is_anew { 0 } else { rejected.unwrap_or(last.end) };
            let mut segments = Vec::with_capacity(lists.len());
            for (request, list) in lists.iter().enumerate() {
                let Some(tokens) = list.iter().copied().collect::<Option<Vec<u32>>>() else { return Ok(None) };
                let known = said[request].get(start..).unwrap_or_default();
                if !is_anew {
                    require_same_from(start, known, &tokens[..self.kept(number, start)])?;
                }
                embedded += if is_anew { 0 } else { tokens.len().saturating_sub(known.len()) };
                let before = said[request].iter().take(ahead).copied();
                let slot = |(i, token)| Some(Slot { token, position: Some(start - ahead + i) });
                let slots = before.chain(tokens).enumerate().map(slot).collect();
                segments.push(Segment { request, start: request * (ahead + width), slots });
            }
            let window = (ahead > 0).then_some(ahead..ahead + width);
            calls.push(Call { window, ..Call::new(lists.len(), ahead + width, segments) });
            last = start..start + width;
        }
        let longest = said.iter().map(Vec::len).max().unwrap_or(0);
        Ok(Some(Inferred { calls, embedded, unread: longest.saturating_sub(last.end), ..Inferred::default() }))
    }

    /// The position at which the first call's tokens are in what was said, if that is one position alone.
    fn found_in(&self, said: &[Vec<u32>]) -> Option<usize> {
        let is_at = |position: usize| {
            said.iter().zip(&self.calls[0]).all(|(said, list)| {
                let there = said.get(position..position + list.len());
                there.is_some_and(|there| there.iter().zip(list).all(|(said, shown)| Some(*said) == *shown))
            })
        };
        let mut found = (0..said.first()?.len()).filter(|&position| is_at(position));
        found.next().filter(|_| found.next().is_none())
    }
}
