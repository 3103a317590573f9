//! One run of a model: how it rounds, whose error is bounded, and who looks.

use std::ops::Range;
use std::sync::Arc;

use ndarray::{Array1, Array2, ArrayView2};

use crate::abreast::Seat;
use crate::bound::ErrorBound;
use crate::matrix::Matrix;
use crate::ops::all_reduce::{AllReduce, all_reduce};
use crate::ops::linear::{self, Linear, linear};
use crate::ops::linear_bias::{self, LinearBias};
use crate::probe::Probe;
use crate::product::Product;
use crate::products::Products;
use crate::rounding::Sharded;
use crate::{Error, Real, Rounding, RoundingContract, Site, Storage, Tracked};

/// The settings of a run.
pub struct Run<'p, T> {
    /// How the reference itself rounds.
    pub contract: RoundingContract,
    /// The candidate whose error is bounded; without one, no bounds are kept.
    pub candidate: Option<RoundingContract>,
    /// Told of every value.
    pub probe: &'p mut dyn Probe<T>,
    /// Products that it has in common with other runs of the model.
    pub products: Option<Shared<'p, T>>,
    /// Its place beside other runs that are under way.
    pub seat: Option<&'p Seat<'p, T>>,
}

/// Products that runs of the same weights share.
pub struct Shared<'p, T> {
    /// Those that were made.
    pub products: &'p Products<T>,
    /// Whether all that are missing are made, for later runs in which the same values may stand. Otherwise those of values that
    /// are known are, which stand in all of them.
    pub makes_all: bool,
}

impl<T> Clone for Shared<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<'_, T> {}

impl<'p, T: Real> Run<'p, T> {
    /// A run that rounds as `contract` says and keeps no bounds.
    pub fn new(contract: RoundingContract, probe: &'p mut dyn Probe<T>) -> Self {
        Run { contract, candidate: None, probe, products: None, seat: None }
    }

    /// A run that rounds nowhere, and bounds the error of a candidate that rounds as `candidate` says.
    pub fn bounding(candidate: RoundingContract, probe: &'p mut dyn Probe<T>) -> Self {
        Run { contract: RoundingContract::IDEAL, candidate: Some(candidate), probe, products: None, seat: None }
    }

    /// The same with products of other runs of the same weights, which these have made from values that are known: a run that keeps
    /// bounds makes them, all take them.
    #[must_use]
    pub fn sharing(self, products: &'p Products<T>) -> Self {
        self.with(Some(Shared { products, makes_all: false }))
    }

    /// The same with products that were shared out.
    #[must_use]
    pub fn with(self, products: Option<Shared<'p, T>>) -> Self {
        Run { products, ..self }
    }

    /// The same run where it rounds otherwise, as where products are computed.
    pub fn within(&mut self, of: fn(RoundingContract) -> RoundingContract) -> Run<'_, T> {
        let (contract, candidate) = (of(self.contract), self.candidate.map(of));
        Run { contract, candidate, probe: &mut *self.probe, products: self.products, seat: self.seat }
    }

    /// The value at a site, after the probe has seen it.
    pub fn visit(&mut self, site: Site, mut value: Tracked<T>) -> Tracked<T> {
        self.probe.visit(site, &mut value);
        value
    }

    /// A value that is only made if the probe wants it.
    pub fn visit_on_request(
        &mut self,
        site: Site,
        value: impl FnOnce(&Self) -> Result<Tracked<T>, Error>,
    ) -> Result<Option<Tracked<T>>, Error> {
        if !self.probe.wants(site) {
            return Ok(None);
        }
        let value = value(self)?;
        Ok(Some(self.visit(site, value)))
    }

    /// A choice, after the probe has seen it.
    pub fn choose(&mut self, site: Site, scores: &Tracked<T>, mut chosen: Array2<usize>) -> Array2<usize> {
        self.probe.choose(site, scores, &mut chosen);
        chosen
    }

    /// A computed value with the bound that `bound` gives for the candidate's contract.
    pub fn tracked(
        &self,
        value: Array2<T>,
        bound: impl FnOnce(&RoundingContract, &Array2<f64>) -> ErrorBound,
    ) -> Tracked<T> {
        let error = self.candidate.as_ref().map(|candidate| bound(candidate, &value.mapv(T::wide)).or_infinite());
        Tracked { value, error }
    }

    /// x as a narrower type has it where it is used next, whose rounding is performed: it is known, as far as x is.
    pub fn narrowed(&self, x: &Tracked<T>, of: impl Fn(&RoundingContract) -> Storage) -> Tracked<T> {
        let own = Rounding { storage: of(&self.contract), mode: self.contract.mode };
        let storage = self.candidate.as_ref().map_or(Storage::Real, &of);
        if own.storage == Storage::Real && storage == Storage::Real {
            return x.clone();
        }
        let known = x.error.as_ref().is_none_or(ErrorBound::is_exact);
        let performed = if known { Rounding::nearest(storage) } else { Rounding::NONE };
        let value = x.value.mapv(|x| performed.round(own.round(x)));
        match &x.error {
            Some(error) if !known => Tracked { value, error: Some(error.clone()) }.with_rounding(storage),
            error => Tracked { value, error: error.clone() },
        }
    }

    /// x as it is multiplied with a quantized matrix whose blocks have so many channels.
    fn quantized(&self, x: &Tracked<T>, group: usize) -> Tracked<T> {
        let value = self.contract.inputs.quantized(&x.value, group, self.contract.mode);
        let own = Tracked { value, error: x.error.clone() };
        let Some(candidate) = &self.candidate else { return own };
        let known = own.error.as_ref().is_none_or(ErrorBound::is_exact);
        if known { candidate.inputs.known(&own, group) } else { candidate.inputs.bounded(&own, group) }
    }

    /// x·wᵀ, rounded and bounded as `params` says for a contract, of an x as products take it.
    pub fn linear(
        &self,
        params: impl Fn(&RoundingContract) -> Linear,
        x: &Tracked<T>,
        w: &Matrix<'_>,
    ) -> Result<Tracked<T>, Error> {
        let x = self.narrowed(x, |contract| contract.operands);
        match w.scales() {
            None => self.product(params, &x, w),
            Some(scales) => self.product(params, &self.quantized(&x, scales.block.1), w),
        }
    }

    /// How many ranks share attention and dense networks: as its contract says, or its candidate's.
    pub fn ranks(&self) -> usize {
        self.shared_as().ranks_of_rows()
    }

    /// How many ranks share experts, and what they have of them.
    pub fn ranks_of_experts(&self) -> (usize, Sharded) {
        let own = self.shared_as();
        (own.ranks, own.sharded)
    }

    fn shared_as(&self) -> &RoundingContract {
        self.candidate.as_ref().filter(|candidate| candidate.ranks > 1).unwrap_or(&self.contract)
    }

    /// What ranks make of x·wᵀ that have some columns of x each, `own`. A quantized w whose blocks they would cut through is
    /// multiplied whole, for no engine splits it.
    pub fn row_parallel(&self, x: &Tracked<T>, w: &Matrix<'_>, own: &[Range<usize>]) -> Result<Vec<Tracked<T>>, Error> {
        let whole = || Ok(vec![self.linear(Linear::under, x, w)?]);
        if own.len() == 1 {
            return whole();
        }
        let Some(parts) = own.iter().map(|own| w.columns(own.clone())).collect::<Option<Vec<_>>>() else {
            return whole();
        };
        let parts = own.iter().zip(&parts);
        parts.map(|(own, part)| self.linear(Linear::under, &x.columns(own.clone()), part)).collect()
    }

    /// The sum of what ranks made; of one rank, what it made.
    pub fn all_reduce(&self, parts: &[Tracked<T>]) -> Result<Tracked<T>, Error> {
        if let [one] = parts {
            return Ok(one.clone());
        }
        let y = all_reduce(&AllReduce::under(&self.contract), parts)?;
        Ok(self.tracked(y, |c, _| AllReduce::under(c).bound(&parts.iter().map(Tracked::widened).collect::<Vec<_>>())))
    }

    /// The same of x as it is.
    pub fn product(
        &self,
        params: impl Fn(&RoundingContract) -> Linear,
        x: &Tracked<T>,
        w: &Matrix<'_>,
    ) -> Result<Tracked<T>, Error> {
        if self.probe.has_ended() {
            return Err(Error::Ended);
        }
        let p = params(&self.contract);
        let product = self.shared(&p, x, w)?;
        let y = match &product {
            Some(product) => linear::of_product(&p, product),
            None => self.multiplied(&p, x.view(), w)?,
        };
        Ok(self.tracked(y, |c, y| params(c).bound_with(&x.widened(), w, (None, product.as_deref()), y)))
    }

    /// x·wᵀ + b.
    pub fn linear_bias(&self, x: &Tracked<T>, w: &Matrix<'_>, b: &Matrix<'_>) -> Result<Tracked<T>, Error> {
        if self.probe.has_ended() {
            return Err(Error::Ended);
        }
        let x = &self.narrowed(x, |contract| contract.autocast.storage());
        let under = |contract: &RoundingContract| LinearBias::under(&contract.of_products());
        let p = under(&self.contract);
        let product = self.shared(&p.product, x, w)?;
        let y = if let Some(product) = &product {
            linear_bias::of_product(&p, product, vector(b).view())?
        } else {
            let b = vector(b);
            p.check(w.dim().0, b.len())?;
            linear_bias::plus(&p, self.multiplied(&p.product, x.view(), w)?, b.view())
        };
        let bound = |c: &RoundingContract, y: &Array2<f64>| {
            under(c).bound_with(&x.widened(), w, (vector(b).view(), product.as_deref()), y)
        };
        Ok(self.tracked(y, bound))
    }

    /// x·wᵀ, together with runs beside it.
    fn multiplied(&self, p: &Linear, x: ArrayView2<'_, T>, w: &Matrix<'_>) -> Result<Array2<T>, Error> {
        Ok(match self.seat {
            Some(seat) => seat.linear(p, x, w)?,
            None => linear(p, x, w)?,
        })
    }

    /// The product of x and w, if it is one that runs share: an x whose error is none is the candidate's own, in every run.
    fn shared(&self, p: &Linear, x: &Tracked<T>, w: &Matrix<'_>) -> Result<Option<Arc<Product<T>>>, Error> {
        let Some(Shared { products, makes_all }) = self.products.filter(|_| p.is_free()) else { return Ok(None) };
        p.check(x.dim(), w.dim())?;
        let is_known = self.candidate.is_some() && x.error.as_ref().is_none_or(ErrorBound::is_exact);
        Ok(if is_known || makes_all { products.find_or_make(x.view(), w) } else { products.find(x.view(), w) })
    }
}

/// The only row of a weight that is a vector.
pub(crate) fn vector<T: Real>(w: &Matrix<'_>) -> Array1<T> {
    let mut row = Array1::zeros(w.dim().1);
    w.row_into(0, row.as_slice_mut().expect("a new array is contiguous"));
    row
}
