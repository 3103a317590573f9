//! What was done to the weights of the vision tower and the projector is found.

use ndarray::{Array2, Axis};
use reference::RoundingContract;
use reference::weights::{Part, Stage, VisionLayerWeight, VisionWeight, Weight, Weights};
use tests::mistaken::Setting;

use super::altered::{map, told};

fn setting() -> Setting {
    Setting::of("vision-images-f32", RoundingContract::EAGER_F32)
}

const fn of(layer: usize, module: VisionLayerWeight, part: Part) -> Weight {
    Weight::Vision(VisionWeight::Layer(layer, module, part))
}

/// What is said of a tensor that was changed.
fn is_told(weight: Weight, f: impl FnOnce(Array2<f64>) -> Array2<f64>, name: &str, way: &str) {
    let setting = setting();
    told(&setting.diagnose(&setting.changed(|_, weights| map(weights, weight, f))), name, way);
}

#[test]
fn a_bias_is_missing() {
    let bias = of(1, VisionLayerWeight::Q, Part::Bias);
    is_told(bias, |w| 0.0 * w, "weight_zero", "the bias of q_proj in the vision tower's layer 1 is 0");
}

#[test]
fn a_tensor_is_another_layers() {
    let [own, other] = [1, 0].map(|layer| of(layer, VisionLayerWeight::Out, Part::Weight));
    let checkpoint = setting().case.checkpoint().expect("it is whole");
    let values = checkpoint.get(other).expect("it is there").dense();
    let way = "out_proj in the vision tower's layer 1 is that of layer 0";
    is_told(own, |_| values, "weight_of_another_layer", way);
}

#[test]
fn colours_are_reversed() {
    let reversed = |w: Array2<f64>| {
        let each = w.ncols() / 3;
        let columns: Vec<usize> = (0..w.ncols()).map(|j| (2 - j / each) * each + j % each).collect();
        w.select(Axis(1), &columns)
    };
    let way = "the columns of the patch embedding have their colours in reverse";
    is_told(Weight::Vision(VisionWeight::Patches), reversed, "columns_permuted", way);
}

/// As an image is stored whose colours follow each other within a pixel.
#[test]
fn colours_come_last() {
    let last = |w: Array2<f64>| {
        let each = w.ncols() / 3;
        let columns: Vec<usize> = (0..w.ncols()).map(|j| j % 3 * each + j / 3).collect();
        w.select(Axis(1), &columns)
    };
    let way = "the columns of the patch embedding are numbered by colour and pixel instead of pixel and colour";
    is_told(Weight::Vision(VisionWeight::Patches), last, "columns_permuted", way);
}

/// A second norm that is built with the tensors of the first.
#[test]
fn a_norm_is_another() {
    let [own, other] = [VisionLayerWeight::Norm2, VisionLayerWeight::Norm1];
    let setting = setting();
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    let live = setting.changed(|_, weights| {
        for part in [Part::Weight, Part::Bias] {
            let values = checkpoint.get(of(1, other, part)).expect("it is there").dense();
            map(weights, of(1, own, part), |_| values);
        }
    });
    let way = "layer_norm2 in the vision tower's layer 1 has the values of layer_norm1";
    told(&setting.diagnose(&live), "weight_of_another_name", way);
}

/// The four patches of a token, channel by channel.
#[test]
fn merged_patches_are_read_in_another_order() {
    let by_channel = |w: Array2<f64>| {
        let each = w.ncols() / 4;
        let columns: Vec<usize> = (0..w.ncols()).map(|j| j % each * 4 + j / each).collect();
        w.select(Axis(1), &columns)
    };
    let merge = Weight::Vision(VisionWeight::Projector(Stage::Merge1, Part::Weight));
    let way = "the columns of patch_merge_mlp.linear_1 are numbered by channel and patch instead of patch and channel";
    is_told(merge, by_channel, "columns_permuted", way);
}

/// Heads of a weight and of its bias, which is a row by itself.
#[test]
fn heads_change_places_with_their_biases() {
    let setting = setting();
    let vision = setting.case.checkpoint().expect("it is whole").config().vision.clone();
    let each = vision.expect("it sees").head_dim();
    let exchanged = |w: Array2<f64>, axis: usize| {
        let order: Vec<usize> =
            (0..w.len_of(Axis(axis))).map(|j| if j < 2 * each { (j + each) % (2 * each) } else { j }).collect();
        w.select(Axis(axis), &order)
    };
    let diagnosis = setting.diagnose(&setting.changed(|_, weights| {
        map(weights, of(0, VisionLayerWeight::Q, Part::Weight), |w| exchanged(w, 0));
        map(weights, of(0, VisionLayerWeight::Q, Part::Bias), |w| exchanged(w, 1));
    }));
    let ways: Vec<&str> = diagnosis.explained.iter().map(|one| one.way.as_str()).collect();
    let place = "q_proj in the vision tower's layer 0 are exchanged";
    let wanted = [format!("heads 0 and 1 of {place}"), format!("heads 0 and 1 of the bias of {place}")];
    assert_eq!((ways, diagnosis.left), (wanted.iter().map(String::as_str).collect(), 0), "{diagnosis:#?}");
}
