//! Hands on a running model's activations as they come: to a dump, or to whoever keeps them.

use fixtures::Tensor;
use fixtures::names::at::At;
use ndarray::Array2;
use optimized::models::capture::Capture;
use reference::config::Config;
use reference::probe::Probe;
use reference::site::{Extent, VisionSite};
use reference::{Real, RoundingContract, Site, Storage, Tracked};

use crate::compare::selection::Selection;
use crate::failure::Failure;
use crate::judge::stored::{is_wide, storage_at};

/// Takes a tensor by the name that a dump gives it.
pub type Writing<'w> = dyn FnMut(&str, Tensor<'static>) -> Result<(), fixtures::Error> + 'w;

/// A probe, and a capture of the CUDA path, that writes what it sees. A step begins with the embedding.
pub struct Recorder<'w> {
    write: &'w mut Writing<'w>,
    selection: Selection,
    contract: RoundingContract,
    config: Config,
    all_steps: bool,
    step: Option<usize>,
    extent: Extent,
    written: usize,
    failure: Option<Failure>,
}

impl<'w> Recorder<'w> {
    /// Values are written in the type that `contract` stores them in, in the shapes of a model that is read as `config`. Without
    /// `all_steps`, only those of the first pass.
    pub fn new(
        write: &'w mut Writing<'w>,
        selection: Selection,
        contract: RoundingContract,
        config: Config,
        all_steps: bool,
    ) -> Self {
        let extent = Extent::new(0, 0);
        Recorder { write, selection, contract, config, all_steps, step: None, extent, written: 0, failure: None }
    }

    /// Hands on what an earlier run saw.
    pub(super) fn hand_on(&mut self, name: &str, tensor: Tensor<'static>) -> Result<(), Failure> {
        (self.write)(name, tensor)?;
        self.written += 1;
        Ok(())
    }

    /// Refuses to go on where something could not be written.
    pub(super) fn require_written(&mut self) -> Result<(), Failure> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// The number of values written, one at least.
    pub fn finish(mut self) -> Result<usize, Failure> {
        self.require_written()?;
        if self.written == 0 {
            return Err(
                Failure::new("no site was selected, so there is nothing to write").help("see --sites, --layers")
            );
        }
        Ok(self.written)
    }

    /// A step of so many tokens begins.
    pub(super) fn begin_step(&mut self, tokens: usize) {
        self.step = Some(self.step.map_or(0, |step| step + 1));
        self.extent = Extent::new(tokens, self.extent.positions + tokens);
    }

    /// Whether a site is recorded in this step.
    fn records(&self, site: Site) -> bool {
        (self.all_steps || self.step.unwrap_or(0) == 0) && self.selection.has(site)
    }

    fn record(&mut self, site: Site, rows: usize, tensor: impl FnOnce(Vec<usize>) -> Option<Tensor<'static>>) {
        if site == Site::Embedding {
            self.begin_step(rows);
        }
        if let Site::Vision(pass, VisionSite::Embeddings) = site {
            self.extent.patches[pass] = rows;
        }
        if !self.records(site) || self.failure.is_some() {
            return;
        }
        let step = self.step.unwrap_or(0);
        let tensor = tensor(site.shape(&self.config, self.extent)).expect("a site's matrix has its shape's elements");
        match (self.write)(&At { step, site }.to_string(), tensor) {
            Ok(()) => self.written += 1,
            Err(error) => self.failure = Some(error.into()),
        }
    }

    fn values(&mut self, site: Site, storage: Storage, rows: usize, value: impl FnOnce() -> Array2<f64>) {
        self.record(site, rows, |shape| Tensor::stored(storage, shape, value()));
    }

    fn indices(&mut self, site: Site, chosen: &Array2<usize>) {
        self.record(site, chosen.nrows(), |shape| Tensor::indices_of(shape, chosen.iter().copied()));
    }
}

impl<T: Real> Probe<T> for Recorder<'_> {
    /// What a contract leaves as it is computed is written so: the next operator reads no rounded copy of it.
    fn visit(&mut self, site: Site, value: &mut Tracked<T>) {
        let storage = if is_wide(site, &self.contract) { Storage::Real } else { storage_at(site, &self.contract) };
        self.values(site, storage, value.value.nrows(), || value.value.mapv(T::wide));
    }

    fn choose(&mut self, site: Site, _: &Tracked<T>, chosen: &mut Array2<usize>) {
        self.indices(site, chosen);
    }

    fn wants(&self, site: Site) -> bool {
        self.selection.names(site)
    }

    /// Where no logits are recorded, a token is chosen by the last.
    fn rows_of_head(&self) -> Option<Vec<usize>> {
        let is_recorded = [Site::LmHead, Site::Logits].into_iter().any(|site| self.records(site));
        (!is_recorded).then(|| self.extent.tokens.checked_sub(1).into_iter().collect())
    }
}

impl Capture for Recorder<'_> {
    fn value(&mut self, site: Site, value: Array2<f32>) {
        self.values(site, storage_at(site, &self.contract), value.nrows(), || value.mapv(f64::from));
    }

    fn choices(&mut self, site: Site, chosen: Array2<usize>) {
        self.indices(site, &chosen);
    }
}
