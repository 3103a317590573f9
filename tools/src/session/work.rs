//! The list of work: the lenses on the layers of the requests.
//!
//! An item needs the candidate's values and yields verdicts, and no item needs what another yields: whoever has an item can
//! do it. Neighbouring items are done in one run over the model, so that what they share is computed once. What one lens tells
//! another on its way is found again by whoever has the other's items alone, and what says something only beside all that was
//! found is said at the end, by [`Found::concluded`]: the items yield the same, however they are divided.

use std::collections::BTreeMap;
use std::ops::Range;

use reference::Site;
use reference::models::decoder::Decoder;

use super::progress::{Progress, Watcher};
use crate::failure::Failure;
use crate::judge::comparison::Comparison;
use crate::judge::found::Found;
use crate::judge::lens::Lens;
use crate::judge::verification::Verification;

/// A lens on a layer of a request. What comes before the first layer belongs to that, what follows the last one to that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// The request's number, from 0.
    pub request: usize,
    /// The layer.
    pub layer: usize,
    /// The lens.
    pub lens: Lens,
}

/// Neighbouring items of a request, which one run over its layers does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// The request's number, from 0.
    pub request: usize,
    /// The layers.
    pub layers: Range<usize>,
    /// The lenses, each once.
    pub lenses: Vec<Lens>,
}

/// The lenses on these layers of all requests. The global lens is none of them where the layers begin at a stream that the
/// candidate shows: what it sees is the way from the tokens.
pub fn list(comparisons: &[Comparison<'_>], layers: &Range<usize>, lenses: &[Lens]) -> Result<Vec<Item>, Failure> {
    let mut items = Vec::new();
    for (request, comparison) in comparisons.iter().enumerate() {
        let model = comparison.model()?;
        let from_tokens = comparison.verification(&model, lenses, layers.clone()).first_layer() == 0;
        let lenses = || lenses.iter().copied().filter(|lens| from_tokens || *lens != Lens::Global);
        items.extend(layers.clone().flat_map(|layer| lenses().map(move |lens| Item { request, layer, lens })));
    }
    Ok(items)
}

/// Items in as few runs as do them, by request and layer.
pub fn stretches(items: &[Item]) -> Vec<Stretch> {
    let mut by_layer: BTreeMap<(usize, usize), Vec<Lens>> = BTreeMap::new();
    for item in items {
        let lenses = by_layer.entry((item.request, item.layer)).or_default();
        if !lenses.contains(&item.lens) {
            lenses.push(item.lens);
        }
    }
    let mut stretches: Vec<Stretch> = Vec::new();
    for ((request, layer), lenses) in by_layer {
        match stretches.last_mut() {
            Some(last) if (last.request, last.layers.end, &last.lenses) == (request, layer, &lenses) => {
                last.layers.end += 1;
            }
            _ => stretches.push(Stretch { request, layers: layer..layer + 1, lenses }),
        }
    }
    stretches
}

/// One run: the lenses that it has, those that go beside them, and the layers through which it goes, which may begin before
/// those of the stretch.
struct Run<'a> {
    stretch: &'a Stretch,
    lenses: Vec<Lens>,
    beside: Vec<Lens>,
    layers: Range<usize>,
}

impl<'a> Run<'a> {
    fn new(stretch: &'a Stretch, lenses: Vec<Lens>, asked: &[Lens], layers: Range<usize>) -> Self {
        let beside = beside(&lenses, asked);
        Run { stretch, lenses, beside, layers }
    }

    fn verification<'v>(&'v self, comparisons: &'v [Comparison<'v>], models: &'v [Decoder<'v>]) -> Verification<'v> {
        let request = self.stretch.request;
        comparisons[request].verification(&models[request], &self.lenses, self.layers.clone())
    }
}

/// Those of the lenses that are asked for, beside these, that tell these something: the local lens which choices were made that the
/// candidate does not show, the layer lens how much of a layer's deviation it makes itself.
fn beside(lenses: &[Lens], asked: &[Lens]) -> Vec<Lens> {
    let tells = |lens: Lens| match lens {
        Lens::Local => true,
        Lens::Layer => lenses.contains(&Lens::Global),
        Lens::Global => false,
    };
    asked.iter().copied().filter(|lens| !lenses.contains(lens) && tells(*lens)).collect()
}

/// Does items of these comparisons, a comparison a request, of all that these lenses are asked for: what was found of each, to be
/// concluded.
pub fn execute(
    comparisons: &[Comparison<'_>],
    (items, asked): (&[Item], &[Lens]),
    what: &str,
    watch: &mut Watcher<'_>,
) -> Result<Vec<Found>, Failure> {
    let models: Vec<Decoder<'_>> = comparisons.iter().map(Comparison::model).collect::<Result<_, _>>()?;
    let stretches = stretches(items);
    let runs: Vec<Run<'_>> = stretches.iter().flat_map(|stretch| runs(stretch, asked, comparisons, &models)).collect();
    let phases = runs.iter().map(|run| run.verification(comparisons, &models).phases());
    watch(Progress::Begins { what, steps: phases.sum() });
    let mut found: Vec<Found> = comparisons.iter().map(|_| Found::default()).collect();
    for run in &runs {
        let Stretch { request, layers, .. } = run.stretch;
        let count = models[*request].config().num_hidden_layers;
        let of_run = run.verification(comparisons, &models).part(&run.beside, |phase| {
            watch(Progress::Step);
            watch(Progress::Place(&format!("{phase} done")));
        })?;
        found[*request].add(of_run.within(|site| layers.contains(&layer_of(site, count))));
    }
    watch(Progress::Ends);
    Ok(found)
}

/// The runs of a stretch. The global lens comes all the way from the tokens, the others begin where they can.
fn runs<'a>(
    stretch: &'a Stretch,
    asked: &[Lens],
    comparisons: &[Comparison<'_>],
    models: &[Decoder<'_>],
) -> Vec<Run<'a>> {
    let Stretch { request, layers, lenses } = stretch;
    let begins = comparisons[*request].verification(&models[*request], lenses, layers.clone()).first_layer();
    if begins == 0 {
        return vec![Run::new(stretch, lenses.clone(), asked, layers.clone())];
    }
    let (global, others): (Vec<Lens>, Vec<Lens>) = lenses.iter().partition(|lens| **lens == Lens::Global);
    let of = |lenses: Vec<Lens>, layers| (!lenses.is_empty()).then(|| Run::new(stretch, lenses, asked, layers));
    of(others, layers.clone()).into_iter().chain(of(global, 0..layers.end)).collect()
}

/// The layer that a site belongs to, of so many.
pub(super) fn layer_of(site: Site, count: usize) -> usize {
    match site {
        Site::Layer(layer, _) => layer,
        Site::FinalNorm | Site::LmHead | Site::Logits => count.saturating_sub(1),
        Site::Vision(..) | Site::Embedding | Site::Module(_) | Site::InputsEmbeds | Site::RopeCos | Site::RopeSin => 0,
    }
}
