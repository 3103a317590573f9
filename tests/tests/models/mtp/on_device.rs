//! `optimized/src/models/mtp.rs` next to the reference, each site from the device's own values.

use std::ops::Range;

use ndarray::{Array2, s};
use optimized::emulated::Form;
use optimized::kernel::Sources;
use optimized::kernel::table::MTP;
use optimized::models::decoder::Decoder;
use optimized::models::mtp::MtpModule;
use reference::config::Config;
use reference::models::mtp::ModuleWeights;
use reference::semantics::Module;
use reference::semantics::MtpTopology::{self, Doc000, HfGeneric, VllmM3};
use reference::site::ModuleSite;
use reference::{RoundingContract, Semantics, Site};
use tests::device::emulated;
use tests::memory::{Memory, tiny, tiny_m3};
use tests::values::activations;
use tools::judge::candidate::Live;
use tools::judge::compared::Compared;
use tools::judge::comparison::Comparison;
use tools::judge::lens::Lens;
use tools::judge::verdict::Verdict;

const TOKENS: [u32; 9] = [7, 1, 39, 7, 0, 22, 13, 5, 5];

/// A module's values on the device, with what it read.
struct Ran {
    config: Config,
    memory: Memory,
    module: Module,
    hidden: Array2<f64>,
    live: Live,
}

/// Passes of a module over these rows, of a device that is prepared.
fn ran(config: &Config, module: Module, passes: &[Range<usize>], spoiled: Option<(&str, &str)>) -> Ran {
    let gpu = emulated(Form::Fast);
    if let Some((from, to)) = spoiled {
        gpu.replace(&MTP, &Sources::embedded().edit("mtp.cu", from, to).expect("once")).expect("it compiles");
    }
    let memory = Memory::with_modules(config, (module.topology, 3), 5);
    let model = Decoder::load(gpu, config, &reading(module.topology), &memory, || ()).expect("it fits");
    let values = activations(3, (TOKENS.len(), config.hidden_size));
    let mut live = Live::default();
    let on_device = MtpModule::load(&model, module.number, &memory).expect("it has weights");
    let mut cache = on_device.cache(TOKENS.len()).expect("memory");
    for rows in passes {
        let hidden = model.gpu().upload(values.slice(s![rows.clone(), ..])).expect("memory");
        on_device.pass(&TOKENS[rows.clone()], &hidden, &mut cache, Some(&mut live)).expect("it runs");
    }
    Ran { config: config.mtp_module(module), memory, module, hidden: values.mapv(f64::from), live }
}

fn reading(topology: MtpTopology) -> Semantics {
    Semantics { mtp_topology: Some(topology), ..Semantics::RELEASED }
}

impl Ran {
    /// The sites that are at fault by their bounds, and those that have other bits than the exact twin.
    fn faults(&self, semantics: &Semantics) -> [Vec<Site>; 2] {
        let weights = ModuleWeights { weights: &self.memory, module: self.module };
        let compared = Compared {
            config: &self.config,
            weights: &weights,
            semantics: *semantics,
            candidate: &self.live,
            steps: &[TOKENS.to_vec()],
            prompt: TOKENS.len(),
            media: None,
            hidden: Some(&self.hidden),
        };
        let comparison = Comparison::new(compared, RoundingContract::PARITY);
        let reference = comparison.model().expect("it fits");
        let verification = comparison.verification(&reference, &[Lens::Local], 0..1);
        let found = verification.verdicts().expect("it runs");
        let own: Vec<Site> = Site::all(&self.config).filter(|site| !site.on_request()).collect();
        assert!(found.sites.len() + 12 > own.len(), "{} of {}", found.sites.len(), own.len());
        let at_fault = found.sites.iter().filter(|site| site.verdict == Verdict::Fault).map(|site| site.site).collect();
        let exact = verification.exactness(true, || ()).expect("it runs").expect("its order is fixed");
        assert!(exact.values().0 > 1000);
        [at_fault, exact.differing().map(|bits| bits.site).collect()]
    }
}

const WHOLE: Range<usize> = 0..TOKENS.len();

/// Read at once, in parts, and row by row.
#[test]
fn every_site_is_within_its_bound_and_the_exact_twin_s() {
    let m2 = Config { num_mtp_modules: 3, ..tiny() };
    for (config, topology) in [(m2, Doc000), (tiny_m3(), VllmM3), (tiny_m3(), HfGeneric)] {
        let parts = [0..4, 4..5, 5..6, 6..9];
        for (number, passes) in [(0, std::slice::from_ref(&WHOLE)), (2, &parts), (0, &parts)] {
            let ran = ran(&config, Module { topology, number }, passes, None);
            assert_eq!(ran.faults(&reading(topology)), [vec![], vec![]], "{topology}, module {number}");
        }
    }
}

/// What the reference reads otherwise is found where it begins.
#[test]
fn another_reading_is_at_fault() {
    use ModuleSite::{BothProj, EmbeddingNorm};
    let ran = ran(&tiny_m3(), Module { topology: VllmM3, number: 0 }, std::slice::from_ref(&WHOLE), None);
    let begins = |text: &str| {
        let [at_fault, other] = ran.faults(&format!("released,{text}").parse().expect("a reading"));
        [at_fault[0], other[0]]
    };
    assert_eq!(begins("mtp_first_embedding=kept"), [Site::Module(EmbeddingNorm); 2]);
    assert_eq!(begins("mtp_concat=hidden_first"), [Site::Module(BothProj); 2]);
}

/// So is what a kernel computes otherwise.
#[test]
fn a_kernel_with_a_mistake_is_at_fault() {
    for (edit, site) in [
        (("int(blockIdx.x) == zeroed", "false"), ModuleSite::EmbeddingNorm),
        (("is_hidden ? w_h : w_e", "w_e"), ModuleSite::HiddenNorm),
        (("float(d)", "float(ld + 8)"), ModuleSite::EmbeddingNorm),
    ] {
        let ran = ran(&tiny_m3(), Module { topology: VllmM3, number: 0 }, std::slice::from_ref(&WHOLE), Some(edit));
        let [at_fault, other] = ran.faults(&reading(VllmM3));
        assert_eq!([at_fault[0], other[0]], [Site::Module(site); 2], "{edit:?}");
    }
}

#[test]
fn c1_to_c3_and_k1() {
    let config = Config { max_position_embeddings: 5, ..tiny() };
    let memory = Memory::with_modules(&config, (Doc000, 3), 1);
    let model = Decoder::load(emulated(Form::Fast), &config, &Semantics::RELEASED, &memory, || ()).expect("it fits");
    let refused = |number, (tokens, rows, room): (&[u32], usize, usize)| {
        let module = MtpModule::load(&model, number, &memory).expect("it has weights");
        let mut cache = module.cache(room).expect("memory");
        let hidden = model.gpu().zeros((rows, config.hidden_size)).expect("memory");
        let refused = module.pass(tokens, &hidden, &mut cache, None).map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(cache.is_empty(), refused.is_err());
        refused.err()
    };
    let short = format!("mtp C1: shape of h = (3, {0}), expected (2, {0})", config.hidden_size);
    assert_eq!(refused(0, (&[1, 2], 3, 5)), Some(short));
    assert_eq!(refused(0, (&[1, 2, 3, 4], 4, 5)), None);
    let positions = "decoder C3: positions = 6, expected at most max_position_embeddings = 5";
    assert_eq!(refused(1, (&[1, 2, 3, 4], 4, 5)), Some(positions.into()));
    assert_eq!(
        refused(0, (&[1, 2, 3], 3, 2)),
        Some("decoder K1: positions = 3, expected at most the cache's, 2".into())
    );
    let lacking = MtpModule::load(&model, 3, &memory).err().map(|error| error.to_string());
    assert_eq!(
        lacking,
        Some("model.mtp.layers.3.transformer_layer.block_sparse_moe.gate.weight: not in memory".into())
    );
}
