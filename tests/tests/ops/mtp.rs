//! `reference/src/ops/mtp.rs`.

use ndarray::array;
use reference::Tracked;
use reference::ops::mtp::{concatenated, embedded};
use reference::semantics::{MtpConcat, MtpFirstEmbedding};

#[test]
fn d17_position_0_is_zeroed_or_kept() {
    let e = Tracked::exact(array![[1.0, 2.0], [3.0, 4.0]]);
    let zeroed = |first| embedded(MtpFirstEmbedding::Zeroed, e.clone(), first).value;
    assert_eq!(zeroed(0), array![[0.0, 0.0], [3.0, 4.0]]);
    assert_eq!(zeroed(1), e.value);
    assert_eq!(embedded(MtpFirstEmbedding::Kept, e.clone(), 0), e);
    let none = Tracked::exact(e.value.slice(ndarray::s![0..0, ..]).to_owned());
    assert_eq!(embedded(MtpFirstEmbedding::Zeroed, none.clone(), 0), none);
}

/// With their errors.
#[test]
fn the_embedding_is_first_and_in_a_slip_the_hidden_state() {
    let (e, mut h) = (Tracked::exact(array![[1.0], [2.0]]), Tracked::exact(array![[3.0], [4.0]]));
    h.error.as_mut().expect("it has one").certain.fill(0.5);
    let both = concatenated(MtpConcat::EmbeddingFirst, &e, &h).expect("they fit");
    assert_eq!(both.value, array![[1.0, 3.0], [2.0, 4.0]]);
    assert_eq!(both.error_or_exact().certain, array![[0.0, 0.5], [0.0, 0.5]]);
    let swapped = concatenated(MtpConcat::HiddenFirst, &e, &h).expect("they fit");
    assert_eq!(swapped.value, array![[3.0, 1.0], [4.0, 2.0]]);
}

#[test]
fn c1_the_shapes_of_both() {
    let (e, h) = (Tracked::exact(array![[1.0], [2.0]]), Tracked::exact(array![[3.0]]));
    let error = concatenated(MtpConcat::EmbeddingFirst, &e, &h).expect_err("a row is missing");
    assert_eq!(error.to_string(), "mtp C1: shape of h = (1, 1), expected (2, 1)");
}
