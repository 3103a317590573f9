//! Drafts of a model's modules of multi-token prediction (SPEC A18, A19).
//!
//! In a series, the last k rows of module k have drafts for tokens. In the next round they are dropped, and computed anew of the
//! tokens that the model verified. vLLM's one module drops the rows of all drafts.
//!
//! Errors: C1 at least one module; C2 a module has read all rows before; C3 the model's passes follow each other.

use std::ops::Range;

use ndarray::ArrayView1;
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

/// A model's modules with a cache each, wherever they compute.
pub trait Modules {
    /// What the model computes of tokens.
    type Pass;
    /// Hidden states, a row each.
    type Hidden;
    /// What may go wrong on the way.
    type Error: From<ContractError>;

    /// How they are put together.
    fn topology(&self) -> MtpTopology;

    /// How many there are.
    fn count(&self) -> usize;

    /// Of a pass of the model, the hidden states that the first module reads, and all of document 000's.
    fn hidden_of_model(&self, pass: &Self::Pass) -> Result<Self::Hidden, Self::Error>;

    /// How many rows there are of hidden states.
    fn height(hidden: &Self::Hidden) -> usize;

    /// Some of their rows.
    fn rows(&self, hidden: &Self::Hidden, rows: Range<usize>) -> Result<Self::Hidden, Self::Error>;

    /// Rows, and others below them.
    fn stacked(&self, hidden: &Self::Hidden, below: &Self::Hidden) -> Result<Self::Hidden, Self::Error>;

    /// Rows in a module's cache.
    fn cached(&self, module: usize) -> usize;

    /// Forgets all rows of a module but the first.
    fn truncate(&mut self, module: usize, rows: usize);

    /// What a module drafts after tokens and as many hidden states, which follow those in its cache; and the hidden states that the
    /// next one reads, where it does not read the model's.
    fn draft(
        &mut self,
        module: usize,
        read: (&[u32], &Self::Hidden),
        sampling: &Sampling,
        rng: &mut ChaCha8Rng,
    ) -> Result<(Draft, Option<Self::Hidden>), Self::Error>;
}

/// Drafts by modules.
pub struct ModuleDrafter<M: Modules> {
    modules: M,
    /// The model's hidden states of all tokens so far, as modules read them.
    hidden: Option<M::Hidden>,
}

/// What a drafter knows before a round.
struct Known<'a, H> {
    text: &'a [u32],
    /// The model's hidden states of all tokens but the last.
    hidden: &'a H,
    /// How many of them modules have read before.
    old: usize,
}

impl<M: Modules> ModuleDrafter<M> {
    /// By modules whose caches are empty. As long as they are asked for no more drafts than before, and no more than there are
    /// modules in a topology with one each, they make as many.
    pub fn by(modules: M) -> Result<Self, M::Error> {
        require(modules.count() > 0, "mtp_drafter C1", "modules", modules.count(), "at least 1")?;
        Ok(ModuleDrafter { modules, hidden: None })
    }

    /// The modules.
    pub fn modules(&self) -> &M {
        &self.modules
    }

    /// A module a draft: each reads the tokens a place further on.
    fn in_series(
        &mut self,
        Known { text, hidden, old }: Known<'_, M::Hidden>,
        most: usize,
        sampling: &Sampling,
        rng: &mut ChaCha8Rng,
    ) -> Result<Vec<Draft>, M::Error> {
        let first = old.saturating_sub(self.modules.count() - 1);
        let mut tokens = text[first + 1..].to_vec();
        let mut h = self.modules.rows(hidden, first..M::height(hidden))?;
        let mut drafts = Vec::new();
        for module in 0..most.min(self.modules.count()) {
            self.modules.truncate(module, first);
            let cached = self.modules.cached(module);
            require(cached == first, "mtp_drafter C2", "rows that a module has read", cached, first)?;
            let (draft, next) = self.modules.draft(module, (&tokens, &h), sampling, rng)?;
            tokens.remove(0);
            tokens.push(draft.token);
            drafts.push(draft);
            h = next.unwrap_or(h);
        }
        Ok(drafts)
    }

    /// One module for all drafts: each after the first is a row more, of the draft before and the module's output there.
    fn by_one(
        &mut self,
        Known { text, hidden, old }: Known<'_, M::Hidden>,
        most: usize,
        sampling: &Sampling,
        rng: &mut ChaCha8Rng,
    ) -> Result<Vec<Draft>, M::Error> {
        self.modules.truncate(0, old);
        let mut tokens = text[old + 1..].to_vec();
        let mut h = self.modules.rows(hidden, old..M::height(hidden))?;
        let mut drafts: Vec<Draft> = Vec::new();
        while drafts.len() < most {
            let (draft, next) = self.modules.draft(0, (&tokens, &h), sampling, rng)?;
            tokens = vec![draft.token];
            drafts.push(draft);
            if let Some(next) = next {
                let height = M::height(&next);
                h = self.modules.rows(&next, height - 1..height)?;
            }
        }
        Ok(drafts)
    }
}

impl<M: Modules> Drafter<M::Pass, M::Error> for ModuleDrafter<M> {
    fn draft(
        &mut self,
        verified: &Verified<'_, M::Pass>,
        most: usize,
        sampling: &Sampling,
        rng: &mut ChaCha8Rng,
    ) -> Result<Vec<Draft>, M::Error> {
        let new = self.modules.hidden_of_model(verified.pass)?;
        let old = self.hidden.as_ref().map_or(0, M::height);
        require(old == verified.first, "mtp_drafter C3", "first new token", verified.first, old)?;
        let hidden = match self.hidden.take() {
            Some(before) => self.modules.stacked(&before, &new)?,
            None => new,
        };
        let known = Known { text: verified.text, hidden: &hidden, old };
        let drafts = if self.modules.topology().has_a_module_each() {
            self.in_series(known, most, sampling, rng)
        } else {
            self.by_one(known, most, sampling, rng)
        };
        self.hidden = Some(hidden);
        drafts
    }
}

/// The draft of a module's last logits \[v\].
pub fn drafted<T: Real>(
    z: ArrayView1<'_, T>,
    sampling: &Sampling,
    rng: &mut ChaCha8Rng,
) -> Result<Draft, ContractError> {
    match sampling {
        Sampling::Greedy => Ok(Draft { token: argmax(z)?.token, probabilities: None }),
        Sampling::Random(random) => {
            let probabilities = random.probabilities(z)?;
            let token = draw(&probabilities, rng);
            Ok(Draft { token, probabilities: Some(probabilities) })
        }
    }
}

/// The reference's modules of a model.
pub struct ReferenceModules<'m, 'w, T> {
    model: &'m Decoder<'w>,
    contract: RoundingContract,
    modules: Vec<(MtpModule<'w>, KvCache<T>)>,
}

/// Drafts by them.
pub type MtpDrafter<'m, 'w, T> = ModuleDrafter<ReferenceModules<'m, 'w, T>>;

impl<'m, 'w, T: Real> MtpDrafter<'m, 'w, T> {
    /// The first `modules` of a model, rounding as a contract says; one, where it makes all drafts.
    pub fn new(model: &'m Decoder<'w>, modules: usize, contract: RoundingContract) -> Result<Self, Error> {
        let used = if topology(model).has_a_module_each() { modules } else { modules.min(1) };
        let modules = (0..used).map(|module| (MtpModule::of(model, module), KvCache::new(1))).collect();
        ModuleDrafter::by(ReferenceModules { model, contract, modules })
    }
}

impl<T: Real> Modules for ReferenceModules<'_, '_, T> {
    type Pass = Pass<T>;
    type Hidden = Tracked<T>;
    type Error = Error;

    fn topology(&self) -> MtpTopology {
        topology(self.model)
    }

    fn count(&self) -> usize {
        self.modules.len()
    }

    fn hidden_of_model(&self, pass: &Pass<T>) -> Result<Tracked<T>, Error> {
        Ok(hidden_of_model(self.model, pass))
    }

    fn height(hidden: &Tracked<T>) -> usize {
        hidden.dim().0
    }

    fn rows(&self, hidden: &Tracked<T>, rows: Range<usize>) -> Result<Tracked<T>, Error> {
        Ok(hidden.rows(rows))
    }

    fn stacked(&self, hidden: &Tracked<T>, below: &Tracked<T>) -> Result<Tracked<T>, Error> {
        Ok(hidden.stacked(below))
    }

    fn cached(&self, module: usize) -> usize {
        self.modules[module].1.len(0)
    }

    fn truncate(&mut self, module: usize, rows: usize) {
        self.modules[module].1.truncate(rows);
    }

    fn draft(
        &mut self,
        module: usize,
        (tokens, hidden): (&[u32], &Tracked<T>),
        sampling: &Sampling,
        rng: &mut ChaCha8Rng,
    ) -> Result<(Draft, Option<Tracked<T>>), Error> {
        let topology = self.topology();
        let (module, cache) = &mut self.modules[module];
        let pass = module.pass(tokens, hidden, cache, &mut Run::new(self.contract, &mut NoProbe))?;
        let draft = drafted(pass.logits.value.row(pass.logits.dim().0 - 1), sampling, rng)?;
        Ok((draft, hidden_of_module(topology, pass)))
    }
}
