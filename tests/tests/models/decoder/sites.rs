//! What the model shows, in which order and shape, and what becomes of what a probe leaves there.

use super::*;
use ndarray::Array2;
use reference::site::Extent;
use reference::{LayerSite, Site};
use tests::judge::within;
use tests::probes::Seen;

/// Every site once, in the order in which a token meets them.
fn inventory(config: &Config, asking: bool) -> Vec<Site> {
    let mut all = vec![Site::Embedding, Site::RopeCos, Site::RopeSin];
    for layer in 0..config.num_hidden_layers {
        for site in LayerSite::ALL {
            if site == LayerSite::Experts {
                all.extend((0..config.num_local_experts).map(|e| Site::Layer(layer, LayerSite::Expert(e))));
            }
            all.push(Site::Layer(layer, site));
        }
    }
    all.extend([Site::FinalNorm, Site::LmHead, Site::Logits]);
    all.retain(|site| site.exists(config) && (asking || !site.on_request()));
    all
}

/// In a pass over a prompt, and in passes over a token after it; with bounds, and without.
#[test]
fn every_site_is_visited_once_in_a_pass() {
    let families =
        [(tiny(), Semantics::DOCUMENTS), (tiny_m3(), Semantics::RELEASED), (tiny_m3(), Semantics::DOCUMENTS)];
    let settings = [(None, false), (None, true), (Some(RoundingContract::FUSED), true)];
    for ((config, semantics), (candidate, asking)) in
        families.iter().flat_map(|family| settings.into_iter().map(move |setting| (family, setting)))
    {
        let memory = Memory::random(config, 1);
        let model = Decoder::new(config, *semantics, &memory).expect("the configuration keeps the contract");
        let config = model.config().clone();
        let (mut cache, mut positions) = (KvCache::<f64>::new(4), 0);
        for tokens in [7, 1, 1, 3] {
            let mut seen = Recorder::new(asking);
            let mut run = Run { candidate, ..Run::new(RoundingContract::IDEAL, &mut seen) };
            model.forward(&TEXT[positions..positions + tokens], &mut cache, &mut run).expect("a good text");
            positions += tokens;
            let sites: Vec<Site> = seen.seen.iter().map(|(site, _)| *site).collect();
            assert_eq!(sites, inventory(&config, asking));
            for (site, seen) in &seen.seen {
                let want = site.matrix(&config, Extent::new(tokens, positions));
                match seen {
                    Seen::Chosen(chosen) => assert_eq!((chosen.dim(), site.is_choice()), (want, true), "{site}"),
                    Seen::Value(value) => {
                        assert_eq!((value.dim(), site.is_choice()), (want, false), "{site}");
                        assert_eq!(value.error.is_some(), candidate.is_some(), "{site}");
                    }
                }
            }
        }
    }
}

/// Three modules return what another returned.
#[test]
fn what_is_shown_twice_is_the_same() {
    let memory = Memory::random(&tiny(), 1);
    let mut seen = Recorder::<f64>::new(false);
    pass(&model(&tiny(), &memory), RoundingContract::EAGER_BF16, &mut seen).expect("a good text");
    assert_eq!(seen.value(Site::LmHead), seen.value(Site::Logits));
    for layer in 0..2 {
        let at = |site| seen.value(Site::Layer(layer, site));
        assert_eq!(at(LayerSite::OProj), at(LayerSite::Attention));
        assert_eq!(at(LayerSite::Experts), at(LayerSite::Mlp));
    }
}

/// The single experts add up, and none adds anything to a token that did not choose it.
#[test]
fn experts_are_the_sum_of_each() {
    let memory = Memory::random(&tiny(), 1);
    let (model, mut seen) = (model(&tiny(), &memory), Recorder::<f64>::new(true));
    let mut run = Run::bounding(RoundingContract::IDEAL, &mut seen);
    model.forward(&TEXT, &mut KvCache::new(2), &mut run).expect("a good text");
    for layer in 0..2 {
        let mut sum = Array2::zeros((TEXT.len(), 48));
        for expert in 0..8 {
            let part = &seen.value(Site::Layer(layer, LayerSite::Expert(expert))).value;
            for (chosen, part) in seen.experts(layer).rows().into_iter().zip(part.rows()) {
                assert_eq!(part.iter().any(|&x| x != 0.0), chosen.iter().any(|&e| e == expert));
            }
            sum += part;
        }
        let experts = seen.value(Site::Layer(layer, LayerSite::Experts));
        within(&sum, &experts.value, &experts.error_or_exact()).expect("three products are added up");
    }
}

/// Puts something else at one site.
struct Other(Site);

impl Probe<f64> for Other {
    fn visit(&mut self, site: Site, value: &mut Tracked<f64>) {
        if site == self.0 {
            // Neither the order of experts nor a mean survives that.
            value.value.indexed_iter_mut().for_each(|((_, j), x)| *x = 1.0 + j as f64 / 4.0 - *x);
        }
    }

    fn choose(&mut self, site: Site, _: &Tracked<f64>, chosen: &mut Array2<usize>) {
        if site == self.0 {
            chosen.mapv_inplace(|expert| (expert + 1) % 8);
        }
    }

    fn wants(&self, site: Site) -> bool {
        site == self.0
    }
}

/// But scores and single experts are only looked at.
#[test]
fn the_model_goes_on_with_what_is_left_at_a_site() {
    let memory = Memory::random(&tiny(), 1);
    let model = model(&tiny(), &memory);
    for contract in [RoundingContract::IDEAL, RoundingContract::EAGER_BF16] {
        let usual: Tracked<f64> = logits(&model, contract);
        for site in inventory(&tiny(), true) {
            let only_shown = matches!(site, Site::Layer(_, LayerSite::Scores | LayerSite::Expert(_)));
            let other = pass(&model, contract, &mut Other(site)).expect("a good text");
            assert_eq!(other == usual, only_shown, "{site}");
        }
    }
}

/// Puts something else at one site, and keeps what is seen.
struct Both(Other, Recorder<f64>);

impl Probe<f64> for Both {
    fn visit(&mut self, site: Site, value: &mut Tracked<f64>) {
        self.0.visit(site, value);
        self.1.visit(site, value);
    }

    fn choose(&mut self, _: Site, _: &Tracked<f64>, _: &mut Array2<usize>) {}
}

/// D60: a norm that reads the sum before it is stored reads what a probe stores there, all the same.
#[test]
fn d60_a_norm_reads_what_is_left_in_the_stream() {
    let memory = Memory::random(&tiny(), 1);
    let (model, contract) = (model(&tiny(), &memory), "fused,norm_input=sum".parse().expect("a contract"));
    for (site, norm) in [
        (Site::Layer(0, LayerSite::Residual), Site::Layer(0, LayerSite::PostAttentionNorm)),
        (Site::Layer(0, LayerSite::Output), Site::Layer(1, LayerSite::InputNorm)),
        (Site::Layer(1, LayerSite::Output), Site::FinalNorm),
    ] {
        let (mut usual, mut both) = (Recorder::new(false), Both(Other(site), Recorder::new(false)));
        pass(&model, contract, &mut usual).expect("a good text");
        pass(&model, contract, &mut both).expect("a good text");
        assert_ne!(both.1.value(norm), usual.value(norm), "{norm}");
    }
}
