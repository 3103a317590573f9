//! Operators on rows.

use ndarray::Axis;
use optimized::device::Gpu;
use optimized::kernel::Kernel;
use optimized::ops::embedding as device;
use optimized::ops::sampling::argmax;

use super::twin::{Draw, NoTrial, Trial, size, wide};

/// Rows are copied.
pub(super) fn embedding(gpu: &Gpu, mut draw: Draw) -> Result<Trial, NoTrial> {
    let table = draw.values((23, 5 * 1024 + 77));
    let tokens: Vec<usize> = (0..9).map(|_| draw.below(table.nrows())).collect();
    let ids: Vec<u32> = tokens.iter().map(|&token| u32::try_from(token).expect("small")).collect();
    let y = gpu.download(&device::embedding(gpu, &ids, &gpu.upload(table.view())?)?)?;
    Ok(Trial::of(&y, &wide(&table.select(Axis(0), &tokens))))
}

/// The largest logit's token, and its margin; half of the rows have ties.
pub(super) fn sampling(gpu: &Gpu, mut draw: Draw, variant: &Kernel) -> Result<Trial, NoTrial> {
    let mut logits = draw.values((6, 3 * size(variant, "THREADS") + 17));
    for mut row in logits.rows_mut().into_iter().step_by(2) {
        row.mapv_inplace(|x| half::bf16::from_f32((4.0 * f32::from(x)).round()));
    }
    let got = argmax(gpu, &gpu.upload(logits.view())?)?;
    let mut trial = Trial { got: Vec::new(), twin: Vec::new() };
    for (row, (token, margin)) in logits.rows().into_iter().zip(got) {
        let want = reference::ops::sampling::argmax(row.mapv(f32::from).view())?;
        trial.got.extend([token as f32, margin]);
        #[expect(clippy::cast_possible_truncation, reason = "the difference of two bf16 of one range, in f32 too")]
        trial.twin.extend([want.token as f32, want.margin as f32]);
    }
    Ok(trial)
}
