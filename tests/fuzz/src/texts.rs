//! Texts: manifests, prompts, maps of names.

use std::path::Path;
use std::sync::LazyLock;

use fixtures::activations::manifest::Manifest;
use fixtures::names::map::NameMap;
use fixtures::names::reading::Reading;
use fixtures::tokens::{Tokens, prompts};
use reference::config::Config;

/// A model of M3 with every kind of layer, and a vision tower.
pub(crate) static MODEL: LazyLock<Config> = LazyLock::new(|| {
    let text = include_str!("../../../fixtures/golden/vision-both-f32/model/config.json");
    Config::from_json(text).expect("a golden case's configuration is whole")
});

/// A manifest, `parity.json`; what is read is read again as the same from what is written of it.
pub fn manifest(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let path = Path::new("parity.json");
    if let Ok(manifest) = Manifest::parse(path, text) {
        assert_eq!(Manifest::parse(path, &manifest.text()).expect("it was written from a manifest"), manifest);
    }
}

/// The file that `--tokens @file.json` names.
pub fn tokens(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(tokens) = Tokens::parse(Path::new("prompt.json"), text) {
        assert!(!tokens.prompt.is_empty(), "a prompt has a token");
    }
    if let Ok(prompts) = prompts::parse(Path::new("prompts.json"), text) {
        assert!(prompts.iter().all(|fed| !fed.tokens().is_empty()), "each prompt has a token");
    }
}

/// A map of names and, after a zero byte, names, one a line.
pub fn names(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (map, names) = text.split_once('\0').unwrap_or((text, ""));
    let Ok(map) = NameMap::parse(map) else { return };
    let reading = Reading::new(&map, names.lines(), &MODEL);
    for (at, place) in &reading.values {
        assert_eq!(place.sites[place.index], at.site, "{}", place.tensor);
    }
}
