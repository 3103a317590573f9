//! The CUDA path multiplies quantized weights as they are stored, and gives the bits of those taken to bf16 before.

use half::bf16;
use ndarray::Array2;
use optimized::device::{DeviceChoice, Gpu};
use optimized::emulated::Form;
use optimized::kernel::table::{DENSE_FFN_16_E4M3, LINEAR_64_BF16_E4M3, MOE_16_E4M3};
use optimized::kernel::{Kernel, Sources};
use optimized::models::decoder::Decoder;
use reference::Semantics;
use reference::error::WeightError;
use reference::matrix::{Encoding, Matrix};
use reference::weights::{Weight, Weights};
use tests::device::emulated;
use tests::quantized::in_bf16;
use tools::judge::lens::Lens;
use tools::report::content::Conclusion;
use tools::session::asked::Asked;
use tools::session::check::{Computed, check};
use tools::session::model::Model;
use tools::session::pixels::Shown;

use super::folder;

/// Those of products of a weight's rows, which are quantized, in bf16.
struct InBf16<'a>(&'a dyn Weights);

impl Weights for InBf16<'_> {
    fn get(&self, weight: Weight) -> Result<Matrix<'_>, WeightError> {
        let matrix = self.0.get(weight)?;
        if matrix.scales().is_none() {
            return Ok(matrix);
        }
        let bytes: Vec<u8> = in_bf16(&[matrix.view()]).iter().flat_map(|x| x.to_le_bytes()).collect();
        Ok(Matrix::new(matrix.dim(), Encoding::Bf16, bytes).expect("two bytes each"))
    }
}

const TOKENS: [u32; 7] = [3, 14, 15, 9, 26, 5, 3];

fn model(case: &str) -> Model {
    Model::open(&folder().join(case).join("model").display().to_string()).expect("it is whole")
}

/// The bits of the logits, on a device of which some kernels are spoiled.
fn logits(model: &Model, weights: &dyn Weights, spoiled: Option<Kernel>) -> Array2<u16> {
    let gpu: Gpu = emulated(Form::Fast);
    if let Some(kernel) = spoiled {
        let sources = Sources::embedded().edit("weights.cuh", "pair.x * scale;", "pair.x * (2.f * scale);");
        gpu.replace(&kernel, &sources.expect("the text is there once")).expect("it compiles");
    }
    let semantics = Semantics::RELEASED;
    let decoder = Decoder::load(gpu, model.checkpoint.config(), &semantics, weights, || ()).expect("it fits");
    let mut cache = decoder.cache(TOKENS.len()).expect("it fits");
    let y = decoder.forward(&TOKENS, &[], &mut cache, None).expect("it runs");
    decoder.gpu().download(&y).expect("it is there").mapv(bf16::to_bits)
}

#[test]
fn weights_as_they_are_stored_give_the_bits_of_those_in_bf16() {
    let cases = [
        ("m2-fp8", &[LINEAR_64_BF16_E4M3, MOE_16_E4M3][..]),
        ("m3-mxfp8", &[LINEAR_64_BF16_E4M3, MOE_16_E4M3, DENSE_FFN_16_E4M3]),
    ];
    for (case, kernels) in cases {
        let model = model(case);
        let got = logits(&model, &model.checkpoint, None);
        assert_eq!(got, logits(&model, &InBf16(&model.checkpoint), None), "{case}");
        for kernel in kernels {
            let spoiled = logits(&model, &model.checkpoint, Some(*kernel));
            assert_ne!(got, spoiled, "{case} does not go through {}", kernel.label());
        }
    }
}

/// Every value is the exact twin's, races and all else that the checked form finds are looked for.
#[test]
fn the_cuda_path_passes() {
    for case in ["m2-fp8", "m3-mxfp8"] {
        let model = model(case);
        let computed = Computed {
            tokens: Some(TOKENS.map(|token| token.to_string()).join(",")),
            shown: Shown::default(),
            decode: 2,
            semantics: Semantics::RELEASED,
            device: DeviceChoice::Emulated(Form::Checked),
            ranks: None,
        };
        let asked = Asked { lenses: vec![Lens::Local], ..Asked::default() };
        let report = &check(&model, &computed, &asked, &mut |_| ()).expect("it runs")[0];
        assert_eq!(report.conclusion(), Conclusion::Pass, "{case}");
        let exact = report.exact.as_ref().expect("its order is fixed");
        assert!(!exact.is_fault() && !exact.sites.is_empty(), "{case}");
    }
}
