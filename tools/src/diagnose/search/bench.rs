//! A site that is computed again under one change after the other, from the candidate's own inputs; [`equal`], the values that are the
//! candidate's then.

mod equal;

use fixtures::names::at::At;
use ndarray::{Array1, Array2, Axis, Zip, concatenate};
use reference::config::{Config, Vision};
use reference::media::Pixels;
use reference::models::decoder::Decoder;
use reference::probe::NoProbe;
use reference::products::Products;
use reference::run::{Run, Shared};
use reference::{LayerSite, RoundingContract, Site, Storage};

use crate::diagnose::catalogue::assumption::Assumption;
use crate::diagnose::catalogue::mistake::{Assumed, Calls, Change, Mistake};
use crate::diagnose::catalogue::tensors::TensorChange;
use crate::diagnose::catalogue::weights::WeightChange;
use crate::failure::Failure;
use crate::judge::comparison::Comparison;
use crate::judge::rerun::{Rerun, With};
use crate::judge::stored::storage_at;
use crate::judge::verdict::SiteReport;
use crate::judge::verification::Verification;
use crate::judge::way;

/// How much nearer a hypothesis comes at least: a share of the squares of what was off.
pub(super) const NEARER: f64 = 0.5;

/// A site at fault, or suspicious, and what is assumed already.
pub(in crate::diagnose) struct Bench<'a, 'c> {
    comparison: &'a Comparison<'c>,
    before: &'a Assumption,
    at: At,
    /// The calls in which what is assumed is made; all, if `None`.
    calls: Option<Calls>,
    /// The site.
    pub(super) site: Site,
    /// It, and those on the way there that the candidate does not show.
    pub(super) suspects: Vec<Site>,
    /// What the candidate has there, in all passes.
    pub(super) candidate: Array2<f64>,
    /// What its twin has.
    pub(super) twin: Rerun,
    /// What the reference has that rounds nowhere.
    pub(super) ideal: Array2<f64>,
    /// The products of both, of which many stand in runs under a change, too.
    products: Products<f64>,
    /// What the squares of each row count: the reciprocal of their mean, in the reference or in the candidate.
    counts: Array1<f64>,
}

impl<'a, 'c> Bench<'a, 'c> {
    /// Of a site that has numbers, and tensors before it.
    pub(in crate::diagnose) fn new(
        comparison: &'a Comparison<'c>,
        before: &'a Assumption,
        fault: &SiteReport,
    ) -> Result<Option<Self>, Failure> {
        if fault.site == Site::InputsEmbeds {
            return Ok(None);
        }
        Bench::described(comparison, before, fault)
    }

    /// Of any site that has numbers: what stands before the first layer is described, though nothing is searched there.
    pub(in crate::diagnose) fn described(
        comparison: &'a Comparison<'c>,
        before: &'a Assumption,
        fault: &SiteReport,
    ) -> Result<Option<Self>, Failure> {
        Bench::of(comparison, before, At { step: fault.step, site: fault.site }, None)
    }

    /// Of the same site, with another assumption.
    pub(super) fn under<'b>(&'b self, before: &'b Assumption) -> Result<Option<Bench<'b, 'c>>, Failure> {
        Bench::of(self.comparison, before, self.at, self.calls)
    }

    /// The same, where what is assumed is made in some calls alone.
    #[must_use]
    pub(in crate::diagnose) fn during(self, calls: Option<Calls>) -> Self {
        Bench { calls, ..self }
    }

    fn of(
        comparison: &'a Comparison<'c>,
        before: &'a Assumption,
        at: At,
        calls: Option<Calls>,
    ) -> Result<Option<Self>, Failure> {
        let At { step, site } = at;
        if site.is_choice() {
            return Ok(None);
        }
        let products = Products::default();
        let made = With { products: Some(Shared { products: &products, makes_all: true }), ..With::default() };
        let run = |contract| {
            let rerun = |verification: Verification<'_>| verification.rerun_with(contract, site, &[], made);
            comparison.under(before, comparison.around(site), rerun)
        };
        let (twin, ideal) = (run(comparison.contract)?, run(RoundingContract::IDEAL)?.computed);
        let candidate = twin.candidate.clone();
        // What is masked has no number that could tell anything.
        let finite =
            [&candidate, &twin.computed, &ideal].into_iter().all(|values| values.iter().all(|x| x.is_finite()));
        if candidate.is_empty() || !finite {
            return Ok(None);
        }
        let squares = |values: &Array2<f64>| values.map_axis(Axis(1), |row| row.dot(&row) / row.len() as f64);
        // A row of zeros may be what is wrong.
        let mut counts = squares(&ideal);
        counts.zip_mut_with(&squares(&candidate), |mean, own| *mean = mean.max(*own));
        counts.mapv_inplace(|mean| if mean > 0.0 { mean.recip() } else { 0.0 });
        let config = comparison.compared.config.under(&before.semantics);
        let is_shown = |site| comparison.compared.candidate.has(At { step, site });
        let mut suspects = way::to(site, is_shown);
        suspects.retain(|site| site.exists(&config));
        // The first layer's stream begins with the embedding.
        let first = [Site::Layer(0, LayerSite::Residual), Site::Embedding];
        if suspects.contains(&first[0]) && ![Site::InputsEmbeds, first[1]].into_iter().any(is_shown) {
            suspects.push(first[1]);
        }
        Ok(Some(Bench { comparison, before, at, calls, site, suspects, candidate, twin, ideal, products, counts }))
    }

    /// The model's configuration as it is read there.
    pub(super) fn config(&self) -> Config {
        let config = self.comparison.compared.config;
        self.site
            .layer()
            .map_or_else(|| config.under(&self.before.semantics), |layer| self.before.config(config, layer))
    }

    /// What `f` makes of the model.
    pub(super) fn with_model<R>(&self, f: impl FnOnce(&Decoder<'_>) -> Result<R, Failure>) -> Result<R, Failure> {
        self.comparison.under(self.before, self.comparison.around(self.site), |verification| f(verification.model))
    }

    /// How the candidate rounds.
    pub(super) fn contract(&self) -> RoundingContract {
        self.comparison.contract
    }

    /// The unit roundoff of what the candidate shows activations in, or of what it computes in.
    pub(super) fn unit(&self) -> f64 {
        self.comparison.contract.shown().unit_roundoff().max(Storage::F32.unit_roundoff())
    }

    /// The tower's configuration, and what goes through it on a pass.
    pub(super) fn vision(&self, pass: usize) -> Option<(Vision, &'a Pixels)> {
        let pixels = self.comparison.compared.media?.passes().nth(pass).map(|(_, pixels)| pixels)?;
        Some((self.config().vision?, pixels))
    }

    /// What the candidate has at another site, in the site's step.
    pub(super) fn shown(&self, site: Site) -> Result<Option<Array2<f64>>, Failure> {
        let at = At { site, ..self.at };
        let candidate = self.comparison.compared.candidate;
        let shown = self.comparison.shows(at).then(|| candidate.matrix(at, self.comparison.extent(at.step)));
        shown.transpose()
    }

    /// What stands at another site, in all steps: as a run of the site's layer has it, else as the candidate shows it, if it shows
    /// all tokens there.
    pub(super) fn in_all_steps(&self, site: Site) -> Result<Option<Array2<f64>>, Failure> {
        match self.rerun(&[], RoundingContract::IDEAL, &[site])?.beside.remove(&site) {
            Some(values) => Ok(Some(values)),
            None => self.shown_in_all_steps(site),
        }
    }

    /// What the candidate has at another site, in all steps, if it shows all tokens there.
    pub(super) fn shown_in_all_steps(&self, site: Site) -> Result<Option<Array2<f64>>, Failure> {
        let candidate = self.comparison.compared.candidate;
        let mut each = Vec::new();
        for step in 0..self.comparison.compared.steps.len() {
            let (at, extent) = (At { step, site }, self.comparison.extent(step));
            if !self.comparison.shows(at) || candidate.shown(at, extent)?.is_some() {
                return Ok(None);
            }
            each.push(candidate.matrix(at, extent)?);
        }
        let views: Vec<_> = each.iter().map(|own| own.view()).collect();
        Ok(concatenate(Axis(0), &views).ok())
    }

    /// The rows of calls of one token; none where a row is no token's, or where other calls have no more.
    pub(super) fn rows_of_single_tokens(&self) -> Vec<usize> {
        let steps = self.comparison.compared.steps;
        let each = steps.iter().flat_map(|step| step.iter().map(|_| step.len() == 1));
        let single: Vec<usize> = each.enumerate().filter(|(_, is)| *is).map(|(row, _)| row).collect();
        let tokens: usize = steps.iter().map(Vec::len).sum();
        if tokens == self.candidate.nrows() && single.len() < tokens { single } else { Vec::new() }
    }

    /// The tokens in whose places features are put, pass by pass.
    pub(super) fn media(&self) -> Vec<u32> {
        let Some((vision, media)) = self.config().vision.zip(self.comparison.compared.media) else { return Vec::new() };
        media.passes().map(|(medium, _)| medium.token(&vision)).collect()
    }

    /// The model's embedding of all tokens.
    pub(super) fn embedded(&self, contract: RoundingContract) -> Result<Array2<f64>, Failure> {
        self.embedded_of(&self.tokens(), contract)
    }

    /// The same of other tokens.
    fn embedded_of(&self, tokens: &[u32], contract: RoundingContract) -> Result<Array2<f64>, Failure> {
        let mut probe = NoProbe;
        self.with_model(|model| Ok(model.embed(tokens, 0, &mut Run::new(contract, &mut probe))?.value))
    }

    /// The values behind the embedding, without rounding, of other tokens than those that are given.
    pub(super) fn of_tokens(&self, tokens: &[u32]) -> Result<Array2<f64>, Failure> {
        let embedded = self.embedded_of(tokens, RoundingContract::IDEAL)?;
        self.with_put((Site::Embedding, &embedded), RoundingContract::IDEAL)
    }

    /// The tokens, of all steps.
    pub(super) fn tokens(&self) -> Vec<u32> {
        self.comparison.compared.steps.concat()
    }

    /// How many tokens each call has.
    pub(super) fn calls(&self) -> Vec<usize> {
        self.comparison.compared.steps.iter().map(Vec::len).collect()
    }

    /// Whether what is assumed is made in later calls alone.
    pub(super) fn is_later(&self) -> bool {
        self.calls.is_some_and(|calls| calls.from > 0)
    }

    /// What is assumed, in the calls in which it is made.
    pub(super) fn in_calls(&self, more: &[Assumed]) -> Vec<Assumed> {
        more.iter().map(|one| if one.calls.is_none() { one.during(self.calls) } else { one.clone() }).collect()
    }

    /// A change of the rotation table, in the site's layer alone where the table is shown.
    pub(super) fn of_own_table(&self, assumed: Assumed) -> Assumed {
        self.comparison.of_own_table(assumed, self.site)
    }

    /// What is assumed already.
    pub(super) fn before(&self) -> &Assumption {
        self.before
    }

    /// A change of weights, in the site's layer if they are of layers.
    pub(super) fn assumed(&self, kind: &'static Mistake, change: TensorChange) -> Assumed {
        let layers = self.site.layer().filter(|_| change.is_of_layers()).map(|layer| vec![layer]);
        Assumed::everywhere(kind, Change::Weights(WeightChange::Tensor(change))).within(layers)
    }

    /// What a run under a contract computes, with more assumed; `wanted` beside it.
    pub(super) fn rerun(
        &self,
        more: &[Assumed],
        contract: RoundingContract,
        wanted: &[Site],
    ) -> Result<Rerun, Failure> {
        let assumption = self.before.and_all(&self.in_calls(more))?;
        let layers = self.comparison.around(self.site);
        let with = With { products: Some(self.products()), ..With::default() };
        let rerun = |verification: Verification<'_>| verification.rerun_with(contract, self.site, wanted, with);
        self.comparison.under(&assumption, layers, rerun)
    }

    /// The values that the twin has, with more assumed.
    pub(in crate::diagnose) fn twin_under(&self, more: &[Assumed]) -> Result<Array2<f64>, Failure> {
        Ok(self.rerun(more, self.comparison.contract, &[])?.computed)
    }

    /// The same, with values put at a site, as [`Bench::rerun`] has them beside this one.
    pub(super) fn twin_with(&self, put: (Site, &Array2<f64>)) -> Result<Array2<f64>, Failure> {
        self.with_put(put, self.comparison.contract)
    }

    /// The same under a contract.
    fn with_put(&self, put: (Site, &Array2<f64>), contract: RoundingContract) -> Result<Array2<f64>, Failure> {
        let around = self.comparison.around(self.site);
        let with = With { put: Some(put), products: Some(self.products()) };
        let rerun = |verification: Verification<'_>| verification.rerun_with(contract, self.site, &[], with);
        Ok(self.comparison.under(self.before, around, rerun)?.computed)
    }

    fn products(&self) -> Shared<'_, f64> {
        Shared { products: &self.products, makes_all: false }
    }

    /// The values without any rounding, with more assumed.
    pub(super) fn ideal_under(&self, more: &[Assumed]) -> Result<Array2<f64>, Failure> {
        Ok(self.rerun(more, RoundingContract::IDEAL, &[])?.computed)
    }

    /// What the squares of each row count.
    pub(super) fn counts(&self) -> &Array1<f64> {
        &self.counts
    }

    /// The sum of products of two matrices of the site's shape, in a column, each as much as its row counts.
    pub(super) fn product(&self, a: &Array2<f64>, b: &Array2<f64>, column: usize) -> f64 {
        let columns = Zip::from(a.column(column)).and(b.column(column)).and(&self.counts);
        columns.fold(0.0, |sum, a, b, count| sum + a * b * count)
    }

    /// Values one after the other, each as much as its row counts: products of two are [`Bench::product`]s of all columns.
    pub(super) fn weighed(&self, values: &Array2<f64>) -> Array1<f64> {
        let rows = values.rows().into_iter().zip(&self.counts);
        rows.flat_map(|(row, count)| row.iter().map(|x| x * count.sqrt()).collect::<Vec<f64>>()).collect()
    }

    /// How far values are from the candidate's: the sum of squares.
    pub(super) fn distance(&self, values: &Array2<f64>) -> f64 {
        if values.dim() != self.candidate.dim() {
            return f64::INFINITY;
        }
        let apart = &self.candidate - values;
        (0..apart.ncols()).map(|column| self.product(&apart, &apart, column)).sum()
    }

    /// What roundings of an operator with several steps leave at most of a row, all together: a few of what is stored, and more of
    /// what is computed.
    pub(super) fn rounding(&self) -> f64 {
        (4.0 * self.unit()).max(64.0 * Storage::F32.unit_roundoff())
    }

    /// What rounding to what is stored leaves of a row: twice as much as one may at most, as both sides round.
    pub(super) fn noise(&self, row: usize) -> f64 {
        let right = self.ideal.row(row);
        2.0 * self.unit() * right.dot(&right).sqrt()
    }

    /// Whether a row is off by more than roundings: from the values without rounding, and from the twin's, which has all that the
    /// candidate is known to round.
    pub(super) fn row_is_off(&self, row: usize) -> bool {
        let norm = |x: Array1<f64>| x.dot(&x).sqrt();
        let (own, right) = (self.candidate.row(row), self.ideal.row(row));
        let limit = self.rounding() * norm(right.to_owned());
        [right, self.twin.computed.row(row)].into_iter().all(|of| norm(&own - &of) > limit)
    }

    /// Values that were computed without rounding, as the candidate would store them; those that are the reference's are the
    /// twin's.
    pub(super) fn stored(&self, values: &Array2<f64>) -> Array2<f64> {
        let storage = storage_at(self.site, &self.comparison.contract);
        let of = |value: &f64, ideal: &f64, twin: &f64| if value == ideal { *twin } else { storage.nearest(*value) };
        Zip::from(values).and(&self.ideal).and(&self.twin.computed).map_collect(of)
    }

    /// How far each row of the twin is.
    pub(super) fn off_by_row(&self) -> Vec<f64> {
        let apart = &self.candidate - &self.twin.computed;
        apart.rows().into_iter().zip(&self.counts).map(|(row, count)| count * row.dot(&row)).collect()
    }

    /// How far each column of the twin is.
    pub(super) fn off_by_column(&self) -> Vec<f64> {
        let apart = &self.candidate - &self.twin.computed;
        (0..apart.ncols()).map(|column| self.product(&apart, &apart, column)).collect()
    }

    /// How far the twin is.
    pub(super) fn off(&self) -> f64 {
        self.distance(&self.twin.computed)
    }

    /// The standard deviation of a factor of `derivative` that least squares find in what is apart, in some columns. Errors may
    /// go together within a row, as those of a norm do, or within a column, as those of a weight: the largest of what each has.
    pub(super) fn deviation(&self, apart: &Array2<f64>, derivative: &Array2<f64>, columns: &[usize]) -> f64 {
        let mut size = 0.0;
        let (mut rows, mut each, mut by_column) = (vec![0.0; apart.nrows()], 0.0, 0.0);
        for &j in columns {
            let mut of_column = 0.0;
            for (i, count) in self.counts.iter().enumerate() {
                let (d, along) = (derivative[[i, j]], count * apart[[i, j]] * derivative[[i, j]]);
                size += count * d * d;
                rows[i] += along;
                of_column += along;
                each += along * along;
            }
            by_column += of_column * of_column;
        }
        let by_row: f64 = rows.iter().map(|along| along * along).sum();
        // One column's own sum is what least squares make 0.
        let by_column = if columns.len() > 1 { by_column } else { 0.0 };
        each.max(by_row).max(by_column).sqrt() / size
    }
}
