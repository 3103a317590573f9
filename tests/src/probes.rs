//! Probes: one that keeps what it sees, one that takes the rotation's table for exact.

use ndarray::Array2;
use reference::probe::Probe;
use reference::{LayerSite, Real, Site, Tracked};

/// What a site showed.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen<T> {
    /// A value.
    Value(Tracked<T>),
    /// The columns chosen in each row.
    Chosen(Array2<usize>),
}

/// Everything seen, in order.
#[derive(Debug, Clone)]
pub struct Recorder<T> {
    /// Sites and what they showed.
    pub seen: Vec<(Site, Seen<T>)>,
    /// Whether to ask for what is only made on request.
    pub asking: bool,
}

impl<T> Recorder<T> {
    /// Nothing seen yet.
    pub fn new(asking: bool) -> Self {
        Recorder { seen: Vec::new(), asking }
    }

    /// The value that a site showed last.
    pub fn value(&self, site: Site) -> &Tracked<T> {
        let value = self.seen.iter().rev().find_map(|(at, seen)| match seen {
            Seen::Value(value) if *at == site => Some(value),
            _ => None,
        });
        value.expect("the site showed a value")
    }

    /// The experts that a layer chose last.
    pub fn experts(&self, layer: usize) -> &Array2<usize> {
        self.chosen(Site::Layer(layer, LayerSite::GateExperts))
    }

    /// What was chosen last at a site.
    pub fn chosen(&self, site: Site) -> &Array2<usize> {
        let chosen = self.seen.iter().rev().find_map(|(at, seen)| match seen {
            Seen::Chosen(chosen) if *at == site => Some(chosen),
            _ => None,
        });
        chosen.expect("a choice was made there")
    }
}

impl<T: Clone> Probe<T> for Recorder<T> {
    fn visit(&mut self, site: Site, value: &mut Tracked<T>) {
        self.seen.push((site, Seen::Value(value.clone())));
    }

    fn choose(&mut self, site: Site, _: &Tracked<T>, chosen: &mut Array2<usize>) {
        self.seen.push((site, Seen::Chosen(chosen.clone())));
    }

    fn wants(&self, _: Site) -> bool {
        self.asking
    }
}

/// Takes the rotation's table as it is: two runs in one arithmetic make the same one, and its bound is that of f32 angles.
#[derive(Debug, Clone, Copy)]
pub struct GivenTable;

impl<T: Real> Probe<T> for GivenTable {
    fn visit(&mut self, site: Site, value: &mut Tracked<T>) {
        if matches!(site, Site::RopeCos | Site::RopeSin) {
            *value = Tracked::exact(value.value.clone());
        }
    }

    fn choose(&mut self, _: Site, _: &Tracked<T>, _: &mut Array2<usize>) {}
}
