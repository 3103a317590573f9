//! Folders of a checkpoint, with one file made up and the others as they were synthesised.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use fixtures::checkpoint::Checkpoint;
use fixtures::folder::Folder;
use fixtures::folder::INDEX;
use fixtures::synth::Synthesis;
use reference::Storage;
use reference::config::Config;
use reference::weights::{Weights, inventory};
use tempfile::TempDir;

/// The file that states a model's sizes.
const CONFIG: &str = "config.json";

/// One layer with two experts.
const SMALL: &str = r#"{
    "model_type": "minimax_m2", "vocab_size": 3, "hidden_size": 4, "intermediate_size": 2, "num_hidden_layers": 1,
    "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 2, "rotary_dim": 2, "rope_theta": 5e6,
    "rms_norm_eps": 1e-6, "num_local_experts": 2, "num_experts_per_tok": 1, "max_position_embeddings": 64
}"#;

/// The files of that model, in shards so small that there are several.
static FILES: LazyLock<Vec<(String, Vec<u8>)>> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model");
    let synthesis = Synthesis { seed: 0, storage: Storage::Bf16, wide: Storage::F32, file_size: 1 << 8, modules: 0 };
    synthesis.write(SMALL, &path, &|_| {}).expect("the folder is writable");
    let names = Folder::Disk(path.clone()).files().expect("the folder is there");
    names.into_iter().map(|name| (name.clone(), fs::read(path.join(name)).expect("a file"))).collect()
});

/// Experts of all layers together, beyond which no folder is opened: the list of a model's tensors is as long as the model
/// is large, whatever the files hold.
const MOST_EXPERTS: usize = 1 << 12;

/// A `config.json`, alone, then beside the weights of `SMALL`.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Config::from_json(text) {
        Ok(config) if config.num_hidden_layers.saturating_mul(config.num_local_experts) <= MOST_EXPERTS => {
            open(CONFIG, bytes);
        }
        Ok(_) => {}
        Err(error) => assert!(!error.problems.is_empty(), "a refusal has a reason"),
    }
}

/// The index that places tensors in files, beside the configuration and the files of `SMALL`.
pub fn index(bytes: &[u8]) {
    open(INDEX, bytes);
}

/// Opens the folder with other bytes in a file; where it opens, reads every weight.
fn open(file: &str, bytes: &[u8]) {
    let folder = folder(file, bytes);
    match Checkpoint::open(folder.path()) {
        Ok(checkpoint) => {
            for (weight, dim) in inventory(checkpoint.config()) {
                if let Ok(matrix) = checkpoint.get(weight) {
                    assert_eq!(matrix.dim(), dim, "{weight}");
                }
            }
        }
        Err(error) => assert!(!error.to_string().is_empty() && !error.help().is_empty()),
    }
}

fn folder(file: &str, bytes: &[u8]) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(Path::new(name)), bytes).expect("writable");
    FILES.iter().filter(|(name, _)| name != file).for_each(|(name, bytes)| write(name, bytes));
    write(file, bytes);
    folder
}
