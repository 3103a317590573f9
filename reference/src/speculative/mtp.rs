//! Drafts of a model's modules of multi-token prediction (SPEC A18, A19).
//!
//! In a series, the last k rows of module k have drafts for tokens. In the next round they are dropped, and computed anew of the
//! tokens that the model verified. vLLM's one module drops the rows of all drafts.
//!
//! Errors: C1 at least one module; C2 a module has read all rows before; C3 the model's passes follow each other.

use rand_chacha::ChaCha8Rng;

use super::drafter::{Draft, Drafter, Verified};
use crate::error::require;
use crate::models::decoder::{Decoder, Pass};
use crate::models::mtp::{MtpModule, hidden_of_model, hidden_of_module, topology};
use crate::ops::kv_cache::KvCache;
use crate::ops::sampling::{Sampling, argmax, draw};
use crate::probe::NoProbe;
use crate::run::Run;
use crate::semantics::MtpTopology;
use crate::{ContractError, Error, Real, RoundingContract, Tracked};

/// What a drafter knows before a round.
struct Known<'a, T> {
    text: &'a [u32],
    /// The model's hidden states of all tokens but the last.
    hidden: &'a Tracked<T>,
    /// How many of them modules have read before.
    old: usize,
}

/// How a draft comes of a module's last logits.
type Choose<'a, T> = dyn FnMut(&Pass<T>) -> Result<Draft, ContractError> + 'a;

/// A model's modules, with a cache each.
pub struct MtpDrafter<'m, 'w, T> {
    model: &'m Decoder<'w>,
    contract: RoundingContract,
    modules: Vec<(MtpModule<'w>, KvCache<T>)>,
    /// The model's hidden states of all tokens so far, as modules read them.
    hidden: Option<Tracked<T>>,
}

impl<'m, 'w, T: Real> MtpDrafter<'m, 'w, T> {
    /// The first `modules` of a model, rounding as a contract says. As long as they are asked for no more drafts than before, and
    /// no more than there are modules in a topology with one each, they make as many.
    pub fn new(model: &'m Decoder<'w>, modules: usize, contract: RoundingContract) -> Result<Self, Error> {
        require(modules > 0, "mtp_drafter C1", "modules", modules, "at least 1")?;
        let used = if topology(model).has_a_module_each() { modules } else { 1 };
        let modules = (0..used).map(|module| (MtpModule::of(model, module), KvCache::new(1))).collect();
        Ok(MtpDrafter { model, contract, modules, hidden: None })
    }

    /// A module a draft: each reads the tokens a place further on.
    fn in_series(
        &mut self,
        known: &Known<'_, T>,
        most: usize,
        choose: &mut Choose<'_, T>,
    ) -> Result<Vec<Draft>, Error> {
        let Known { text, hidden, old } = *known;
        let topology = topology(self.model);
        let first = old.saturating_sub(self.modules.len() - 1);
        let mut tokens = text[first + 1..].to_vec();
        let mut h = hidden.rows(first..hidden.dim().0);
        let mut drafts = Vec::new();
        for (module, cache) in self.modules.iter_mut().take(most) {
            cache.truncate(first);
            require(cache.len(0) == first, "mtp_drafter C2", "rows that a module has read", cache.len(0), first)?;
            let pass = module.pass(&tokens, &h, cache, &mut Run::new(self.contract, &mut NoProbe))?;
            let draft = choose(&pass)?;
            tokens.remove(0);
            tokens.push(draft.token);
            drafts.push(draft);
            if let Some(next) = hidden_of_module(topology, pass) {
                h = next;
            }
        }
        Ok(drafts)
    }

    /// One module for all drafts: each after the first is a row more, of the draft before and the module's output there.
    fn by_one(&mut self, known: &Known<'_, T>, most: usize, choose: &mut Choose<'_, T>) -> Result<Vec<Draft>, Error> {
        let Known { text, hidden, old } = *known;
        let topology = topology(self.model);
        let (module, cache) = &mut self.modules[0];
        cache.truncate(old);
        let mut tokens = text[old + 1..].to_vec();
        let mut h = hidden.rows(old..hidden.dim().0);
        let mut drafts: Vec<Draft> = Vec::new();
        while drafts.len() < most {
            let pass = module.pass(&tokens, &h, cache, &mut Run::new(self.contract, &mut NoProbe))?;
            let draft = choose(&pass)?;
            tokens = vec![draft.token];
            drafts.push(draft);
            if let Some(next) = hidden_of_module(topology, pass) {
                let rows = next.dim().0;
                h = next.rows(rows - 1..rows);
            }
        }
        Ok(drafts)
    }
}

impl<T: Real> Drafter<T> for MtpDrafter<'_, '_, T> {
    fn draft(
        &mut self,
        verified: &Verified<'_, T>,
        most: usize,
        sampling: &Sampling,
        rng: &mut ChaCha8Rng,
    ) -> Result<Vec<Draft>, Error> {
        let new = hidden_of_model(self.model, verified.pass);
        let old = self.hidden.as_ref().map_or(0, |hidden| hidden.dim().0);
        require(old == verified.first, "mtp_drafter C3", "first new token", verified.first, old)?;
        let hidden = match self.hidden.take() {
            Some(before) => before.stacked(&new),
            None => new,
        };
        let mut choose = |pass: &Pass<T>| {
            let z = pass.logits.value.row(pass.logits.dim().0 - 1);
            match sampling {
                Sampling::Greedy => Ok(Draft { token: argmax(z)?.token, probabilities: None }),
                Sampling::Random(random) => {
                    let probabilities = random.probabilities(z)?;
                    let token = draw(&probabilities, rng);
                    Ok(Draft { token, probabilities: Some(probabilities) })
                }
            }
        };
        let known = Known { text: verified.text, hidden: &hidden, old };
        let drafts = match topology(self.model) {
            MtpTopology::VllmM3 => self.by_one(&known, most, &mut choose),
            MtpTopology::Doc000 | MtpTopology::HfGeneric => self.in_series(&known, most, &mut choose),
        };
        self.hidden = Some(hidden);
        drafts
    }
}
