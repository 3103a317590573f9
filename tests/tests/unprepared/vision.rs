//! What a vision tower computes, of each image by itself, or under names that say little.

use super::*;

/// Two images, of 24 and 32 patches.
const CASE: &str = "vision-images-f32";

const PATCHES: [usize; 2] = [24, 32];

const FEATURES: &str = "model.multi_modal_projector";

/// What goes into each layer of the tower, and what comes out of the last.
const STATES: [&str; 4] = [
    "model.vision_tower.pre_layrnorm",
    "model.vision_tower.layers.0",
    "model.vision_tower.layers.1",
    "model.vision_tower.layers.2",
];

fn written(name: &str, to: &str) -> (String, Values) {
    (to.to_owned(), values(name))
}

fn values(name: &str) -> Values {
    computed(CASE).remove(name).expect("it is there")
}

/// An image's own rows.
fn of_image(values: &Values, image: usize) -> Values {
    let width = *values.shape.last().expect("it has an axis");
    let all = values.of.len() / width;
    let end = |images: usize| PATCHES[..images].iter().sum::<usize>() * all / 56;
    let (first, end) = (end(image), end(image + 1));
    Values::new(&[end - first, width], values.of[first * width..end * width].to_vec())
}

/// Both images, each filled up to as many rows as the larger one has.
fn filled_up(values: &Values) -> Values {
    let images = [0, 1].map(|image| of_image(values, image));
    let [rows, width] = images[1].shape[..] else { panic!("a matrix") };
    let of = images.into_iter().flat_map(|Values { mut of, .. }| {
        of.resize(rows * width, 0.0);
        of
    });
    Values::new(&[2, rows, width], of.collect())
}

fn judged(values: &Named, model: &Model) -> Result<(usize, usize), String> {
    let tokens = repository::golden().case(CASE).expect("it is one of them").tokens;
    let tokens = Some(tokens.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
    let dump = dump_of(values, (Storage::F32, Dtype::F32));
    let requests = Dumped::of(dump, &Given { tokens, ..Given::default() }, model);
    judged_of(&requests.map_err(|refused| refused.to_string())?, model)
}

fn open() -> Model {
    Model::open(CASE).expect("it is built in")
}

/// Demands that a dump is right, so many sites at least, and wrong with its first or its last tensor off.
fn holds(named: &Named, least: usize) {
    let (faults, sites) = judged(named, &open()).unwrap_or_else(|refused| panic!("{refused}"));
    let names: Vec<&String> = named.keys().collect();
    assert!(faults == 0 && sites >= least, "{names:?}: {faults} faults in {sites}");
    for name in names.iter().take(1).chain(names.last().filter(|_| names.len() > 1)) {
        let (faults, _) = judged(&off(named.clone(), name), &open()).unwrap_or_else(|refused| panic!("{refused}"));
        assert!(faults > 0, "{name} is 5 % off");
    }
}

#[test]
fn features_of_all_images_or_of_each() {
    let features = values(FEATURES);
    for name in ["image_embeds", "image_hidden_states", "pooler_output"] {
        holds(&Named::from([written(FEATURES, name)]), 1);
    }
    for name in [
        |image: usize| format!("pooler_output.{image}"),
        |image: usize| format!("image_outputs.pooler_output.{image}"),
        |image: usize| format!("image_embeds.{image}"),
        |image: usize| format!("image_features_{}", image + 1),
        |image: usize| format!("image_features[{image}]"),
        |image: usize| format!("model.multi_modal_projector.{image}"),
    ] {
        holds(&[0, 1].map(|image| (name(image), of_image(&features, image))).into(), 1);
    }
    holds(&Named::from([("image_features".into(), filled_up(&features))]), 1);
}

#[test]
fn layers_of_each_image() {
    for name in [
        |image: usize, path: &str| format!("image{image}.{path}"),
        |image: usize, path: &str| format!("{image}/{path}"),
        |image: usize, path: &str| format!("{path}.{image}"),
    ] {
        let each = STATES.iter().flat_map(|path| [0, 1].map(|image| (image, path)));
        let each = each.map(|(image, path)| (name(image, path), of_image(&values(path), image)));
        holds(&each.collect(), 4);
    }
    let filled = STATES.iter().map(|path| ((*path).to_owned(), filled_up(&values(path))));
    holds(&filled.collect(), 4);
}

#[test]
fn states_that_a_tower_returns() {
    let states = STATES.map(values);
    for list in ["vision_hidden_states", "vision_tower.hidden_states"] {
        let tuple: Named = states.iter().enumerate().map(|(i, one)| (format!("{list}.{i}"), one.clone())).collect();
        holds(&tuple, 4);
        let all: Vec<f64> = states.iter().flat_map(|state| state.of.clone()).collect();
        holds(&Named::from([(list.into(), Values::new(&[4, 56, 40], all))]), 4);
    }
    let last = ("vision_outputs.last_hidden_state".to_owned(), states[3].clone());
    let features = [0, 1].map(|image| (format!("pooler_output.{image}"), of_image(&values(FEATURES), image)));
    holds(&features.into_iter().chain([last]).collect(), 2);
}

/// Of a tower that is not as wide as the decoder no name needs to say that it is a tower's.
#[test]
fn states_are_told_by_their_width() {
    let mut config = open().checkpoint.config().clone();
    config.hidden_size += 8;
    let named = STATES.iter().enumerate().map(|(i, path)| written(path, &format!("hidden_states.{i}")));
    let named = named.chain([written(STATES[3], "last_hidden_state")]);
    let maps = NameMap::shipped();
    let read = Sited::new(dump_of(&named.collect(), (Storage::F32, Dtype::F32)), &config, &maps);
    let sites = |read: &Sited| read.sites().map(|at| at.site.to_string()).collect::<Vec<_>>();
    let read = read.of_images(&PATCHES, &maps).expect("it has a tower's");
    assert_eq!(sites(&read), STATES);
    assert!(read.of_images(&[PATCHES[0]], &maps).is_none(), "of as many patches");
}

#[test]
fn pixels_beside_what_was_computed_of_them() {
    let case = repository::golden().case(CASE).expect("it is one of them");
    let pixels = case.pixels().expect("it is whole").expect("it shows something");
    let input = |name: &str| {
        let tensor = pixels.tensor(name).expect("it is listed");
        (name.to_owned(), Values::new(tensor.shape(), tensor.values()))
    };
    let model = Model { case: None, ..open() };
    let named = Named::from([written(FEATURES, "image_features"), input("pixel_values"), input("image_grid_thw")]);
    assert_eq!(judged(&named, &model).map(|(faults, _)| faults), Ok(0));
    assert!(judged(&off(named.clone(), "image_features"), &model).expect("it is read").0 > 0);
    // Inputs and outputs apart.
    let place = |name: &str| if name == "image_features" { "outputs" } else { "inputs" };
    let apart = named.clone().into_iter().map(|(name, of)| (format!("{}.{name}", place(&name)), of)).collect();
    assert_eq!(judged(&apart, &model).map(|(faults, _)| faults), Ok(0));
    // A factor is nothing to the norm behind the patches' embedding; others' pixels are.
    let mut others = named;
    others.get_mut("pixel_values").expect("it is there").of.reverse();
    assert!(judged(&others, &model).expect("it is read").0 > 0);
}

#[test]
fn one_image_of_two_is_refused() {
    let one = Named::from([("image_features".into(), of_image(&values(FEATURES), 0))]);
    let refused = judged(&one, &open()).expect_err("it has not all rows");
    assert!(refused.contains("is [6, 40], expected [14, 40] as model.multi_modal_projector"), "{refused}");
}

/// A number alone is no module's output, though the model that holds it has one.
#[test]
fn numbers_behind_names_that_are_not_known_are_none() {
    let features = values(FEATURES);
    let one = Named::from([("something.0".into(), of_image(&features, 0))]);
    let refused = judged(&one, &open()).expect_err("nobody knows what it is");
    assert!(refused.contains("0 of 1 names are known"), "{refused}");
}
