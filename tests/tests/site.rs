//! `reference/src/site.rs`.

use reference::semantics::{Module, MtpTopology};
use reference::site::{Extent, Kept, ModuleSite, VisionLayerSite, VisionSite};
use reference::{LayerSite, Site};
use tests::memory::{tiny, tiny_m3};

const OUTSIDE: [Site; 11] = [
    Site::Embedding,
    Site::Module(ModuleSite::EmbeddingNorm),
    Site::Module(ModuleSite::HiddenNorm),
    Site::Module(ModuleSite::BothProj),
    Site::Module(ModuleSite::HiddenProj),
    Site::InputsEmbeds,
    Site::RopeCos,
    Site::RopeSin,
    Site::FinalNorm,
    Site::LmHead,
    Site::Logits,
];

fn all() -> impl Iterator<Item = Site> {
    let layers = [0, 1, 17, 61].into_iter();
    let experts = [0, 7, 255].map(LayerSite::Expert);
    let inside =
        layers.flat_map(move |layer| LayerSite::ALL.into_iter().chain(experts).map(move |s| Site::Layer(layer, s)));
    let tower = [0, 1].into_iter().flat_map(|pass| {
        let of_layer = |layer| VisionLayerSite::ALL.map(move |site| VisionSite::Layer(layer, site));
        let sites = VisionSite::OUTSIDE.into_iter().chain([0, 31].into_iter().flat_map(of_layer));
        sites.map(move |site| Site::Vision(pass, site))
    });
    OUTSIDE.into_iter().chain(inside).chain(tower)
}

#[test]
fn paths_parse_and_print() {
    let mut paths: Vec<String> = all().map(|site| site.to_string()).collect();
    for (site, path) in all().zip(&paths) {
        assert_eq!(path.parse(), Ok(site), "{path}");
    }
    paths.sort();
    paths.dedup();
    assert_eq!(paths.len(), all().count());
}

/// The names of the transformers library's modules.
#[test]
fn paths_by_hand() {
    for (site, path) in [
        (Site::Embedding, "model.embed_tokens"),
        (Site::RopeSin, "model.rotary_emb.1"),
        (Site::FinalNorm, "model.norm"),
        (Site::LmHead, "lm_head"),
        (Site::Layer(3, LayerSite::Output), "model.layers.3"),
        (Site::Layer(3, LayerSite::InputNorm), "model.layers.3.input_layernorm"),
        (Site::Layer(61, LayerSite::QNorm), "model.layers.61.self_attn.q_norm"),
        (Site::Layer(0, LayerSite::Probabilities), "model.layers.0.self_attn.1"),
        (Site::Layer(0, LayerSite::GateWeights), "model.layers.0.mlp.gate.1"),
        (Site::Layer(0, LayerSite::GateExperts), "model.layers.0.mlp.gate.2"),
        (Site::Layer(0, LayerSite::Experts), "model.layers.0.mlp.experts"),
        (Site::Layer(0, LayerSite::Expert(12)), "model.layers.0.mlp.experts.12"),
        (Site::Layer(3, LayerSite::IndexQProj), "model.layers.3.self_attn.indexer.q_proj"),
        (Site::Layer(3, LayerSite::IndexKNorm), "model.layers.3.self_attn.indexer.k_norm"),
        (Site::Layer(3, LayerSite::Blocks), "model.layers.3.self_attn.indexer"),
        (Site::Layer(3, LayerSite::Shared), "model.layers.3.mlp.shared_experts"),
        (Site::Layer(3, LayerSite::SharedGateUp), "model.layers.3.mlp.shared_experts.gate_up_proj"),
        (Site::Layer(0, LayerSite::DenseGateUp), "model.layers.0.mlp.gate_up_proj"),
        (Site::Layer(0, LayerSite::DenseDown), "model.layers.0.mlp.down_proj"),
        (Site::InputsEmbeds, "model.inputs_embeds"),
        (Site::Module(ModuleSite::EmbeddingNorm), "model.enorm"),
        (Site::Module(ModuleSite::HiddenNorm), "model.hnorm"),
        (Site::Module(ModuleSite::BothProj), "model.eh_proj"),
        (Site::Module(ModuleSite::HiddenProj), "model.mtp_proj"),
        (Site::Vision(0, VisionSite::Embeddings), "model.vision_tower.embeddings"),
        (Site::Vision(0, VisionSite::RopeSin), "model.vision_tower.rotary_emb.1"),
        (Site::Vision(0, VisionSite::Layer(31, VisionLayerSite::Output)), "model.vision_tower.layers.31"),
        (
            Site::Vision(0, VisionSite::Layer(2, VisionLayerSite::OutProj)),
            "model.vision_tower.layers.2.self_attn.out_proj",
        ),
        (Site::Vision(0, VisionSite::MergeLinear1), "model.multi_modal_projector.merge_linear_1"),
        (Site::Vision(1, VisionSite::Features), "pass.1.model.multi_modal_projector"),
        (Site::Vision(1, VisionSite::PreNorm), "pass.1.model.vision_tower.pre_layrnorm"),
    ] {
        assert_eq!((site.to_string().as_str(), path.parse()), (path, Ok(site)));
    }
}

#[test]
fn paths_that_are_none() {
    for path in
        ["", "model", "model.layers", "model.layers.", "model.layers.x", "model.layers.0.", "model.layers.0.mlp.gate.3"]
    {
        let err = path.parse::<Site>().expect_err("no site");
        assert_eq!(
            err.to_string(),
            format!("site = {path:?}, expected the path of a module, as transformers names it")
        );
    }
    // One path to each site.
    for path in ["model.layers.+1", "model.layers.01", "model.layers.0.mlp.experts.+1", "model.layers.0.mlp.experts.01"]
    {
        assert!(path.parse::<Site>().is_err(), "{path}");
    }
}

/// Rows are all axes but the last.
#[test]
fn a_matrix_is_the_shape_with_its_first_axes_as_one() {
    let (config, extent) = (tiny(), Extent::new(5, 9));
    for (config, site) in [tiny(), tiny_m3()].iter().flat_map(|config| all().map(move |site| (config, site))) {
        let (shape, (rows, columns)) = (site.shape(config, extent), site.matrix(config, extent));
        assert_eq!(shape.iter().product::<usize>(), rows * columns, "{site}");
        assert_eq!(shape.last(), Some(&columns), "{site}");
    }
    let shape = |site| Site::Layer(1, site).shape(&config, extent);
    assert_eq!(Site::Logits.shape(&config, extent), [5, 40]);
    assert_eq!(Site::RopeCos.shape(&config, extent), [5, 4]);
    assert_eq!(shape(LayerSite::QRope), [5, 48]);
    assert_eq!(shape(LayerSite::KRope), [5, 16]);
    assert_eq!(shape(LayerSite::Scores), [6, 5, 9]);
    assert_eq!(shape(LayerSite::GateChoice), [5, 8]);
    assert_eq!(shape(LayerSite::GateExperts), [5, 3]);
    assert_eq!(shape(LayerSite::ExpertHidden), [5, 3, 24]);
    assert_eq!(shape(LayerSite::ExpertOutput), [5, 3, 48]);
    assert_eq!(shape(LayerSite::Expert(2)), [5, 48]);
}

/// Two index heads of six channels, five blocks of two keys of which three are chosen.
#[test]
fn shapes_of_m3() {
    let (config, extent) = (tiny_m3(), Extent::new(5, 9));
    let shape = |site| Site::Layer(3, site).shape(&config, extent);
    assert_eq!(shape(LayerSite::QNorm), [5, 48]);
    assert_eq!(shape(LayerSite::IndexQRope), [5, 12]);
    assert_eq!(shape(LayerSite::IndexKProj), [5, 6]);
    assert_eq!(shape(LayerSite::TokenScores), [2, 5, 9]);
    assert_eq!(shape(LayerSite::BlockMax), [2, 5, 5]);
    assert_eq!(shape(LayerSite::Blocks), [2, 5, 3]);
    assert_eq!(shape(LayerSite::DenseGateUp), [5, 60]);
    assert_eq!(shape(LayerSite::SharedGateUp), [5, 40]);
    assert_eq!(shape(LayerSite::Shared), [5, 48]);
    let few = Extent::new(1, 3);
    assert_eq!(Site::Layer(3, LayerSite::Blocks).shape(&config, few), [2, 1, 2]);
    // One choice for all heads has no axis of its own.
    let all = config.under(&"documents".parse().expect("a preset"));
    assert_eq!(Site::Layer(3, LayerSite::Blocks).shape(&all, extent), [5, 3]);
    let (q, k) = (Site::Layer(3, LayerSite::IndexQNorm), Site::Layer(3, LayerSite::QNorm));
    assert_eq!((q.head_dim(&config), k.head_dim(&config)), (6, 8));
}

/// A layer has the sites of what it is made of.
#[test]
fn sites_that_a_layer_has() {
    let has = |layer, site| Site::Layer(layer, site).exists(&tiny_m3());
    for (site, layers) in [
        (LayerSite::QProj, [true; 4]),
        (LayerSite::DenseDown, [true, false, true, false]),
        (LayerSite::GateLogits, [false, true, false, true]),
        (LayerSite::Expert(7), [false, true, false, true]),
        (LayerSite::Expert(8), [false; 4]),
        (LayerSite::Shared, [false, true, false, true]),
        (LayerSite::Blocks, [false, false, true, true]),
        (LayerSite::Scores, [true, true, false, false]),
        (LayerSite::Probabilities, [true; 4]),
    ] {
        assert_eq!([0, 1, 2, 3].map(|layer| has(layer, site)), layers, "{site:?}");
    }
    assert!(!has(4, LayerSite::QProj) && Site::Logits.exists(&tiny_m3()));
    assert!(!Site::Layer(0, LayerSite::Shared).exists(&tiny()) && Site::Layer(0, LayerSite::Experts).exists(&tiny()));
}

/// A module has those of what its stream is made by; a model, none of them.
#[test]
fn sites_that_a_module_has() {
    use ModuleSite::{BothProj, EmbeddingNorm, HiddenNorm, HiddenProj};
    let own =
        [EmbeddingNorm, HiddenNorm, BothProj, HiddenProj].map(Site::Module).into_iter().chain([Site::InputsEmbeds]);
    let own: Vec<Site> = own.collect();
    let has = |config: &reference::config::Config| own.iter().map(|site| site.exists(config)).collect::<Vec<_>>();
    for (config, topology, is_summed) in [
        (tiny(), MtpTopology::Doc000, true),
        (tiny_m3(), MtpTopology::VllmM3, false),
        (tiny_m3(), MtpTopology::HfGeneric, false),
    ] {
        assert_eq!(has(&config), [false; 5]);
        let module = config.mtp_module(Module { topology, number: 1 });
        assert_eq!(has(&module), [!is_summed, !is_summed, !is_summed, is_summed, is_summed], "{topology}");
        assert!(
            Site::Layer(0, LayerSite::Experts).exists(&module) && !Site::Layer(1, LayerSite::Experts).exists(&module)
        );
    }
}

#[test]
fn kinds_of_sites() {
    for site in all() {
        let inside = matches!(site, Site::Layer(..));
        assert_eq!(site.layer().is_some(), inside);
        let Site::Layer(layer, place) = site else { continue };
        assert_eq!(site.layer(), Some(layer));
        assert_eq!(site.is_choice(), matches!(place, LayerSite::GateExperts | LayerSite::Blocks));
        let requested = matches!(
            place,
            LayerSite::Scores | LayerSite::Probabilities | LayerSite::TokenScores | LayerSite::Expert(_)
        );
        assert_eq!(site.on_request(), requested);
    }
    let mut places = LayerSite::ALL.to_vec();
    places.sort();
    places.dedup();
    assert_eq!(places.len(), LayerSite::ALL.len());
    assert!(places.iter().all(|place| !matches!(place, LayerSite::Expert(_))));
}

/// Whether each site is one of these.
fn only(is: impl Fn(Site) -> bool, sites: &[Site]) {
    let found: Vec<Site> = all().filter(|site| is(*site)).collect();
    let named: Vec<Site> = all().filter(|site| sites.contains(site)).collect();
    assert_eq!(found, named);
}

/// What an operator carries in f32, as the headers of `router`, `indexer` and `rope` say under *Dtypes*.
#[test]
fn values_that_are_wide() {
    use LayerSite::{BlockMax, BlockScore, GateChoice, GateLogits, GateScores, GateWeights, TokenScores};
    let tables = [Site::RopeCos, Site::RopeSin].into_iter();
    let of_tower = [VisionSite::RopeCos, VisionSite::RopeSin];
    let of_tower = [0, 1].into_iter().flat_map(|pass| of_tower.map(|site| Site::Vision(pass, site)));
    let scores = [GateLogits, GateScores, GateChoice, GateWeights, TokenScores, BlockMax, BlockScore];
    let scores = [0, 1, 17, 61].into_iter().flat_map(|layer| scores.map(|site| Site::Layer(layer, site)));
    only(|site| site.kept() == Kept::Wide, &tables.chain(of_tower).chain(scores).collect::<Vec<_>>());
}

/// What goes from one layer to the next, and from the tower to the text.
#[test]
fn the_stream_in_between_layers() {
    let layers = [0, 1, 17, 61].map(|layer| Site::Layer(layer, LayerSite::Output));
    let tower = [
        VisionSite::PreNorm,
        VisionSite::Layer(0, VisionLayerSite::Output),
        VisionSite::Layer(31, VisionLayerSite::Output),
        VisionSite::Features,
    ];
    let tower = [0, 1].into_iter().flat_map(|pass| tower.map(|site| Site::Vision(pass, site)));
    let all: Vec<Site> = layers.into_iter().chain(tower).chain([Site::Embedding]).collect();
    only(Site::is_stream, &all);
}

/// A name for each axis, in the order of the shape.
#[test]
fn axes_have_names() {
    let names = |site: Site| site.axes().iter().map(|axis| axis.name()).collect::<Vec<_>>();
    for (site, axes) in [
        (Site::Logits, &["token", "vocabulary entry"][..]),
        (Site::Layer(0, LayerSite::Scores), &["head", "token", "position"]),
        (Site::Layer(0, LayerSite::Blocks), &["group", "token", "block"]),
        (Site::Layer(0, LayerSite::GateExperts), &["token", "expert"]),
        (Site::Layer(0, LayerSite::ExpertHidden), &["token", "choice", "channel"]),
        (Site::Vision(0, VisionSite::Linear2), &["patch", "channel"]),
        (Site::Vision(0, VisionSite::MergeLinear1), &["feature", "channel"]),
    ] {
        assert_eq!(names(site), axes, "{site}");
    }
}
