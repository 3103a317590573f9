//! A dump in one way to understand its names.

use fixtures::activations::manifest::Manifest;
use fixtures::names::sited::Sited;
use reference::media::Media;
use reference::{Semantics, Site};

use super::aside;
use super::beams::Beams;
use super::compared::compared;
use super::dumped::{Dumped, Given, Prefix};
use super::lasts::{is_inside, shows_inside};
use super::model::Model;
use super::precision::{Known, contract_of};
use super::rows::{RequestRows, prompts_known, requests};
use crate::failure::Failure;

/// Tokens before a request's rows that are computed for what attention reads of them, at most: of more it takes longer than all else.
const MOST: usize = 4096;

/// Its values by these names, and what says more of them.
pub(super) struct Understood {
    pub(super) values: Sited,
    pub(super) manifest: Option<Manifest>,
    pub(super) semantics: Semantics,
}

impl Understood {
    /// Its requests. Where operators are judged by themselves, so that what attention reads before rows is unknown, and tokens say
    /// what it is, the requests follow once more, with what these make of it.
    pub(super) fn dumped(self, given: &Given, model: &Model) -> Result<Vec<Dumped>, Failure> {
        let whole = shows_inside(&self.values).then(|| Understood {
            values: self.values.without(|site, is_cache| is_cache || is_inside(site)),
            manifest: self.manifest.clone(),
            semantics: self.semantics,
        });
        let mut found = self.requests(given, model, None)?;
        let absent = |one: &Dumped| one.values.request().map_or(0, |request| request.absent);
        if let Some(whole) = whole
            && found.iter().all(|one| (1..=MOST).contains(&absent(one)))
            && let Ok(whole) = whole.requests(given, model, Some(found[0].known.clone()))
            && whole.iter().all(|one| absent(one) == 0)
        {
            for one in &mut found {
                one.prefix = Prefix::Beside;
            }
            let of_all = |one: Dumped| Dumped { values: one.values.readable(), prefix: Prefix::Computed, ..one };
            found.extend(whole.into_iter().map(of_all));
        }
        Ok(found)
    }

    /// Its requests, of which something may be known.
    fn requests(self, given: &Given, model: &Model, mut known: Option<Known>) -> Result<Vec<Dumped>, Failure> {
        let Understood { values, mut manifest, semantics } = self;
        let config = model.checkpoint.config().under(&semantics);
        let is_known =
            given.tokens.is_some() || model.case.is_some() || manifest.as_ref().is_some_and(|m| m.tokens.is_some());
        if !is_known && values.sites().all(|at| matches!(at.site, Site::Vision(..))) {
            manifest.get_or_insert_default().tokens = given.shown.places(model, values.dump())?;
        }
        let of = |values: &Sited| requests(values, given.tokens.as_deref(), (model, &semantics), manifest.as_ref());
        let (values, aside, mut asked) = match of(&values) {
            Ok(asked) => (values, 0, asked),
            Err(refused) if manifest.as_ref().is_none_or(|manifest| manifest.calls.is_empty()) => {
                let known = prompts_known(given.tokens.as_deref(), model)?;
                let aside = aside::calls(&values, known.as_deref(), model)?;
                let behind = values.behind(aside);
                let asked = of(&behind).map_err(|_| refused)?;
                (behind, aside, asked)
            }
            Err(refused) => return Err(refused),
        };
        let mut seen = given.shown.of_each(model, values.dump(), &mut asked)?;
        // One engine computed all requests, so that what is known of the first is known of all.
        let are_named = manifest.iter().flat_map(|manifest| &manifest.calls).any(|call| call.requests.is_some());
        if let [first, _, ..] = &asked[..]
            && !are_named
            && seen.iter().all(Option::is_none)
        {
            let (steps, one) = (first.request.steps(), values.of(first.request.clone()));
            let compared = compared((model, semantics), &one, (&steps, first.prompt.tokens.len()), None);
            let contract = known.insert(contract_of(&one, given.precision.as_deref(), &compared)?).contract;
            let beams = Beams::of((model, &values), (semantics, contract), &asked);
            if let Some(settled) = beams.map(|beams| beams.settled()).transpose()?.flatten() {
                seen = vec![None; settled.len()];
                asked = settled;
            }
        }
        let count = asked.len();
        let read = |(rows, media): (RequestRows, Option<Media>)| {
            let RequestRows { request, prompt, embedded, likeliest, unread, padding, filled, beam } = rows;
            prompt.check(&config, prompt.decoded.len())?;
            let steps = request.steps();
            let (request, values) = ((request.id, count), values.of(request));
            let known = if let Some(known) = &known {
                known.clone()
            } else {
                let compared = compared((model, semantics), &values, (&steps, prompt.tokens.len()), media.as_ref());
                known.insert(contract_of(&values, given.precision.as_deref(), &compared)?).clone()
            };
            Ok(Dumped {
                values,
                request,
                prompt,
                aside,
                embedded,
                likeliest,
                scored: false,
                unread,
                padding,
                filled,
                beam,
                steps,
                known,
                semantics,
                media,
                prefix: Prefix::Own,
            })
        };
        asked.into_iter().zip(seen).map(read).collect()
    }
}
