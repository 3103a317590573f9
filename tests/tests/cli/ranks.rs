//! Models that several ranks share: their checkpoints and their dumps.

use std::fs;
use std::path::Path;

use fixtures::Tensor;
use fixtures::activations::dump::Dump;
use fixtures::activations::writer::DumpWriter;
use reference::Storage;
use serde_json::json;
use tests::repository::path;

use super::{assert_refused, change_tensor, listing, parity};

/// M2's heads, and few of all else.
fn config() -> String {
    let config = json!({
        "model_type": "minimax_m2", "vocab_size": 64, "hidden_size": 16, "intermediate_size": 8, "num_hidden_layers": 1,
        "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 4, "rotary_dim": 2, "rope_theta": 5e6,
        "rms_norm_eps": 1e-6, "num_local_experts": 64, "num_experts_per_tok": 8, "max_position_embeddings": 64,
        "tie_word_embeddings": false
    });
    config.to_string()
}

#[test]
fn a_checkpoint_goes_to_64_ranks_and_back() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |typed: &str| parity(folder.path(), &typed.split(' ').collect::<Vec<_>>());
    fs::write(folder.path().join("config.json"), config()).expect("writable");
    assert_eq!(run("synth config.json --out hub").code, Some(0));
    let listed = run("convert hub --to neuron --tp 64 --dry-run");
    for line in ["layers.0.self_attn.q_norm.weight bf16 [256]", "layers.0.self_attn.k_norm.weight bf16 [256]"] {
        assert!(listed.stdout.lines().any(|other| other == line), "{listed}");
    }
    let made = run("convert hub --to neuron --tp 64 --out ported");
    assert_eq!((made.code, made.stdout.as_str()), (Some(0), "ported\n"), "{made}");
    assert_eq!(run("convert ported --to hub --out back").code, Some(0));
    let files = |name: &str| -> Vec<_> {
        let path = folder.path().join(name);
        listing(&path).into_iter().map(|file| (file.clone(), fs::read(path.join(file)).expect("readable"))).collect()
    };
    assert_eq!(files("hub"), files("back"));
    let refused = run("convert hub --to fused --tp 3 --out other");
    assert_refused(&refused, &["ranks C2: R = 3, expected a divisor or a multiple of the 8 key heads"]);
    let refused = run("convert hub --to fused --out other --shard-size 0");
    assert_refused(&refused, &["--shard-size 0: expected more than 0 GiB"]);
    assert_eq!(listing(folder.path()), ["back", "config.json", "hub", "ported"]);
}

/// Ranks that are written are read: of each family, and where heads are padded and keys repeated.
#[test]
fn a_group_of_ranks_is_run_and_verified() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |typed: &str| parity(folder.path(), &typed.split(' ').collect::<Vec<_>>());
    fs::write(folder.path().join("config.json"), config()).expect("writable");
    assert_eq!(run("synth config.json --out hub").code, Some(0));
    for (model, ranks, more) in [
        ("m2-gqa3-f32", 2, "--precision eager_f32 --decode 2 --steps"),
        ("m3-gqa4-f32", 2, "--precision eager_f32"),
        ("hub", 64, "--precision f32 --tokens 3,1,4,1,5"),
        ("hub", 16, "--precision bf16 --tokens 3,1,4,1,5"),
        ("m2-sharded-bf16", 2, "--precision fused --decode 2 --steps"),
        ("m3-sharded-bf16", 2, "--precision vllm_bf16"),
    ] {
        let out = format!("ranks-{model}-{ranks}");
        let ran = run(&format!("run {model} --tp {ranks} --out {out} {more}"));
        assert_eq!(ran.code, Some(0), "{ran}");
        let verified = run(&format!("verify {model} {out} --tp {ranks}"));
        assert_eq!(verified.code, Some(0), "{verified}");
        assert!(verified.stdout.contains("PASS"), "{verified}");
    }
    // Of one token as of many, ranks choose as the model does.
    let [of_ranks, alone] = ["--tp 2 --out again", "--out alone.safetensors"]
        .map(|more| run(&format!("run m2-gqa3-f32 --decode 4 {more}")).stdout);
    assert_eq!(of_ranks, alone);
    let rank = Dump::open(&folder.path().join("ranks-hub-64/rank-14/dump.safetensors")).expect("it was written");
    let shape = |name: &str| rank.tensor(name).expect(name).shape().to_vec();
    assert_eq!(shape("model.layers.0.self_attn.q_proj"), [5, 4]);
    assert!(rank.tensor("model.layers.0.self_attn.q_proj").expect("there").values::<f64>().iter().all(|q| *q == 0.0));
    assert_eq!((shape("model.layers.0.self_attn.k_proj"), shape("lm_head")), (vec![5, 4], vec![5, 1]));
    assert_eq!(shape("model.layers.0.self_attn.o_proj"), [5, 16]);
    assert_refused(
        &run("run hub --tp 3 --tokens 1 --out other"),
        &["R = 3", "number of ranks that can share the model"],
    );
    assert_refused(&run("run hub --tp 2 --tokens 1 --out other.npz"), &["other.npz: expected a new folder"]);
    assert_refused(&run("run vision-images-f32 --tp 2 --out other"), &["--tp 2: the prompt shows images or videos"]);
    assert!(!folder.path().join("other").exists());
}

/// The dumps of two ranks of a built-in case.
fn dump(folder: &Path) {
    let run = ["run", "m2-gqa3-f32", "--tp", "2", "--precision", "eager_f32", "--out", "ranks"];
    assert_eq!(parity(folder, &run).code, Some(0));
}

#[test]
fn dumps_of_ranks_are_verified_as_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    dump(folder.path());
    let verify = |more: &[&str]| parity(folder.path(), &[&["verify", "m2-gqa3-f32", "ranks"], more].concat());
    for more in [&["--tp", "2"][..], &[]] {
        let ran = verify(more);
        assert_eq!(ran.code, Some(0), "{ran}");
    }
    let difference =
        |more: &[&str]| parity(folder.path(), &[&["diff", "ranks", "ranks", "--limit", "0"], more].concat());
    assert_refused(&difference(&[]), &["has what each of 2 ranks dumped", "give --model"]);
    assert_eq!(difference(&["--model", "m2-gqa3-f32"]).code, Some(0));
    let file = folder.path().join("ranks/rank-1/dump.safetensors");
    let of_rank = Dump::open(&file).expect("tensors");
    let name = of_rank.names().find(|name| name.ends_with("post_attention_layernorm")).expect("it is there");
    assert!(change_tensor(&file, name, |bytes| bytes[0] ^= 1));
    let ran = verify(&["--tp", "2"]);
    assert_refused(&ran, &[&format!("{name}: differs between rank-0 and rank-1")]);
    fs::remove_dir_all(folder.path().join("ranks/rank-1")).expect("there");
    let ran = verify(&["--tp", "2"]);
    assert_refused(&ran, &["has no folder or file of rank 1"]);
    let ran = verify(&["--tp", "1"]);
    assert_refused(&ran, &["ranks with a part here: 1, expected 2, as rank-0 says"]);
}

/// What hooks see of a projection whose ranks' parts are added up outside of it: all ranks have the same behind it.
#[test]
fn summands_are_left_out_where_their_sum_was_made() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    dump(folder.path());
    let file = |rank: usize| folder.path().join(format!("ranks/rank-{rank}/dump.safetensors"));
    let names: Vec<String> = Dump::open(&file(0)).expect("tensors").names().map(str::to_owned).collect();
    let scale = |module: &str, rank: usize, factor: f32| {
        for name in names.iter().filter(|name| name.ends_with(module)) {
            let scaled = |bytes: &mut [u8]| {
                for value in bytes.as_chunks_mut::<4>().0 {
                    *value = (f32::from_le_bytes(*value) * factor).to_le_bytes();
                }
            };
            assert!(change_tensor(&file(rank), name, scaled), "{name}");
        }
    };
    for (rank, factor) in [0.25, 0.75].into_iter().enumerate() {
        scale("self_attn.o_proj", rank, factor);
        scale(".mlp", rank, factor);
    }
    let verify = ["verify", "m2-gqa3-f32", "ranks"];
    let ran = parity(folder.path(), &verify);
    assert_eq!(ran.code, Some(0), "{ran}");
    // Under another name, too.
    for rank in 0..2 {
        let bytes = fs::read(file(rank)).expect("readable");
        let header = 8 + usize::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        let named = String::from_utf8(bytes[8..header].to_vec())
            .expect("JSON")
            .replace("self_attn.o_proj\"", "self_attn.o_proj.partial\"");
        let length = (named.len() as u64).to_le_bytes();
        fs::write(file(rank), [&length[..], named.as_bytes(), &bytes[header..]].concat()).expect("writable");
    }
    let ran = parity(folder.path(), &verify);
    assert_eq!(ran.code, Some(0), "{ran}");
    // Behind a sum that a rank did not make all is another.
    scale("layers.1.post_attention_layernorm", 1, 2.0);
    assert_refused(&parity(folder.path(), &verify), &["differs between rank-0 and rank-1"]);
}

/// What a rank of two of vLLM's has of a tensor of the golden M3 with four query heads, two key heads and two index heads of 64
/// channels; a summand of what norms add up, and no logits on the second.
fn vllm_part(name: &str, whole: &Tensor<'_>, rank: usize) -> Option<Tensor<'static>> {
    let (shape, size) = (whole.shape(), whole.dtype().size());
    let module = name.trim_start_matches("language_model.").rsplit_once('.').map_or(name, |(_, last)| last);
    let columns = |blocks: &[usize]| {
        let bytes = whole.bytes().chunks(704 * size);
        let own = bytes.flat_map(|row| blocks.iter().flat_map(move |block| &row[block * 64 * size..][..64 * size]));
        Tensor::new(whole.dtype(), [shape[0], blocks.len() * 64], own.copied().collect::<Vec<_>>()).expect("columns")
    };
    let summands = ["self_attn", "o_proj", "experts", "block_sparse_moe", "0"];
    match module {
        "qkv_proj" => Some(columns(&[2 * rank, 2 * rank + 1, 4 + rank, 6 + rank, 8 + rank, 10])),
        "logits_processor" if rank == 1 => None,
        "1" if name.contains("indexer") => {
            let own = whole.bytes().chunks(whole.bytes().len() / 2).nth(rank).expect("two heads").to_vec();
            Some(Tensor::new(whole.dtype(), [1, shape[1], shape[2]], own).expect("a head"))
        }
        _ if summands.contains(&module) || name.ends_with("layers.1") => {
            let values = whole.values::<f64>().into_iter().map(|x| x * [0.25, 0.75][rank]);
            Some(Tensor::stored(Storage::F32, shape, values).expect("as many"))
        }
        _ => Some(Tensor::new(whole.dtype(), shape, whole.bytes().to_vec()).expect("as it was")),
    }
}

#[test]
fn dumps_of_vllm_s_ranks_are_verified_without_what_norms_add_up() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let engines = path("fixtures/golden-engines");
    let whole = Dump::open(&engines.join("vllm/vision-m3-float32.safetensors")).expect("it is whole");
    for rank in 0..2 {
        let path = folder.path().join(format!("ranks/rank-{rank}"));
        fs::create_dir_all(&path).expect("writable");
        let mut writer = DumpWriter::create(&path.join("dump.safetensors")).expect("writable");
        for name in whole.names() {
            if let Some(part) = vllm_part(name, &whole.tensor(name).expect("it is listed"), rank) {
                writer.write(name, &part).expect("writable");
            }
        }
        writer.finish(&whole.manifest().cloned().unwrap_or_default()).expect("writable");
    }
    let model = engines.join("cases/vision/model").display().to_string();
    let ran = parity(folder.path(), &["verify", &model, "ranks", "--tp", "2", "--json", "report.json"]);
    assert_eq!(ran.code, Some(0), "{ran}");
    let report = fs::read_to_string(folder.path().join("report.json")).expect("it was written");
    for site in ["self_attn.q_proj", "self_attn.v_proj", "self_attn.indexer.k_proj", "self_attn.residual", "logits"] {
        assert!(report.contains(site), "{site}: {ran}");
    }
    // A residual stream that differs is a sum that a rank did not make.
    let file = folder.path().join("ranks/rank-1/dump.safetensors");
    let name = "language_model.model.layers.1.input_layernorm.1";
    assert!(change_tensor(&file, name, |bytes| bytes[0] ^= 1));
    let ran = parity(folder.path(), &["verify", &model, "ranks", "--tp", "2"]);
    assert_refused(&ran, &[&format!("{name}: differs between rank-0 and rank-1")]);
}

/// The CUDA path's ranks, on the emulated device: what they dump is verified, and checked as it is computed; one rank makes the
/// tokens that the whole model does.
#[test]
fn a_group_of_ranks_is_run_on_devices() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |typed: &str| parity(folder.path(), &typed.split(' ').collect::<Vec<_>>());
    for model in ["m2-sharded-bf16", "m3-sharded-bf16"] {
        let out = format!("ranks-{model}");
        let ran =
            run(&format!("run {model} --backend optimized --device emulated --tp 2 --decode 2 --steps --out {out}"));
        assert_eq!(ran.code, Some(0), "{ran}");
        let verified = run(&format!("verify {model} {out} --tp 2"));
        assert_eq!(verified.code, Some(0), "{verified}");
        assert!(verified.stdout.contains("PASS"), "{verified}");
        let checked = run(&format!("check {model} --device emulated --tp 2 --decode 3"));
        assert_eq!(checked.code, Some(0), "{checked}");
        assert!(checked.stdout.contains("the CUDA path on 2 ranks"), "{checked}");
        let tokens = ["--tp 1 --out one", "--out alone"]
            .map(|more| run(&format!("run {model} --backend optimized --device emulated --decode 4 {more}-{model}")));
        let [one, alone] = tokens.map(|ran| ran.stdout);
        assert!(!one.is_empty() && one == alone, "{one} {alone}");
    }
    let refused = run("check m2-sharded-bf16 --device emulated --tp 3");
    assert_refused(&refused, &["R = 3", "number of ranks that can share the model"]);
    let refused = run("check vision-images-bf16 --device emulated --tp 2");
    assert_refused(&refused, &["--tp 2: the prompt shows images or videos"]);
}
