//! Sites whose tensors may stand in one another's place.

use reference::{LayerSite, Site};

use crate::diagnose::search::Bench;

/// Other sites of as many channels: the same operator's of other layers first, the nearest layer before others, then all others.
pub(super) fn alike(bench: &Bench<'_, '_>, own: Site) -> Vec<Site> {
    use LayerSite as S;
    let (config, here) = (bench.config(), bench.site.layer().unwrap_or_default());
    let of_stream = [S::Experts, S::Shared, S::Mlp, S::Attention, S::OProj, S::Residual, S::Output];
    let kinds = of_stream.into_iter().chain([S::InputNorm, S::PostAttentionNorm, S::Context]);
    let mut layers: Vec<usize> = (0..config.num_hidden_layers).collect();
    layers.sort_by_key(|layer| layer.abs_diff(here));
    let of_layers = layers.iter().flat_map(|layer| kinds.clone().map(|kind| Site::Layer(*layer, kind)));
    let is_same = |site: &Site| matches!((site, own), (Site::Layer(_, a), Site::Layer(_, b)) if *a == b);
    let (same, others): (Vec<Site>, Vec<Site>) = of_layers.partition(is_same);
    let all = same.into_iter().chain(others).chain([Site::InputsEmbeds, Site::Embedding, Site::FinalNorm]);
    all.filter(|site| *site != own && *site != bench.site && site.exists(&config)).collect()
}
