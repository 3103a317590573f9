//! What the program says and does of URLs.

use std::fs;
use std::process::Command;

use crate::{Bench, CASE, case};

/// The exit code, and what a terminal says with these variables, without the lines that break it.
fn ran(bench: &Bench, variables: &[(&str, &str)], arguments: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let endpoint = format!("http://127.0.0.1:{}", bench.server.port);
    let cache = bench.cache.path().to_string_lossy().into_owned();
    let own = [
        ("PARITY_CACHE", cache.as_str()),
        ("AWS_ENDPOINT", &endpoint),
        ("AWS_REGION", "nowhere"),
        ("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1"),
        ("NO_PROXY", "127.0.0.1"),
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_program"));
    command.current_dir(folder.path()).args(arguments);
    let names = std::env::vars_os().map(|(name, _)| name);
    let of_stores =
        names.filter(|name| ["AWS_", "GOOGLE_"].iter().any(|store| name.to_string_lossy().starts_with(store)));
    for name in of_stores {
        command.env_remove(name);
    }
    let ran = command.envs(own.iter().chain(variables).copied()).output().expect("the program was built");
    let told = String::from_utf8([ran.stdout, ran.stderr].concat()).expect("UTF-8");
    let words: Vec<&str> = told.split_whitespace().filter(|word| *word != "│").collect();
    (ran.status.code(), words.join(" "))
}

/// It was refused, with these words, and without those.
fn assert_refused((code, told): &(Option<i32>, String), words: &[&str], without: &[&str]) {
    assert!(*code == Some(2) && words.iter().all(|words| told.contains(words)), "{words:?}: {told}");
    assert!(without.iter().all(|words| !told.contains(words)), "{without:?}: {told}");
}

const MODEL: &str = "s3://bucket/case/model";
const DUMP: &str = "s3://bucket/case/expected.safetensors";
const TOKENS: &str = "@s3://bucket/case/case.json";
const KEY: &str = "AKIDEXAMPLE";

/// A bucket whose requests must be signed.
fn locked() -> Bench {
    let bench = Bench::new();
    bench.server.served.lock().expect("free").key = Some(KEY.into());
    bench
}

#[test]
fn commands_take_urls_where_they_take_files() {
    let bench = locked();
    let keys = [("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", "hidden")];
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (run, converted) = (out("run.npz"), out("converted"));
    for arguments in [
        &["verify", MODEL, DUMP, "--tokens", TOKENS, "--lens", "local"][..],
        &["diagnose", MODEL, DUMP, "--tokens", TOKENS],
        &["diff", DUMP, DUMP, "--limit", "0"],
        &["show", MODEL],
        &["show", DUMP],
        &["account", MODEL],
        &["run", MODEL, "--tokens", TOKENS, "--out", &run],
        &["convert", MODEL, "--to", "transformers", "--out", &converted],
    ] {
        let (code, told) = ran(&bench, &keys, arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {told}");
    }
    let written = ran(&bench, &keys, &["run", MODEL, "--tokens", TOKENS, "--out", "s3://bucket/run.npz"]);
    assert_refused(&written, &["is a URL, expected a file's name"], &[]);
}

#[test]
fn layers_that_are_not_asked_for_are_not_fetched() {
    // The first two layers tell a precision: the case has a third.
    let fetched = |layers: &[&str]| {
        let bench = Bench::of("m2-mha-top1-f32");
        let arguments = [&["verify", MODEL, DUMP, "--tokens", TOKENS, "--lens", "local"], layers].concat();
        let (code, told) = ran(&bench, &[("AWS_SKIP_SIGNATURE", "true")], &arguments);
        assert_eq!(code, Some(0), "{told}");
        bench.server.given()
    };
    let (one, all) = (fetched(&["--layers", "0"]), fetched(&[]));
    assert!(one < all, "{one} of {all}");
}

#[test]
fn credentials_that_lack_or_are_wrong_are_said_and_never_shown() {
    let bench = locked();
    let wrong = [("AWS_ACCESS_KEY_ID", "AKIDOTHER"), ("AWS_SECRET_ACCESS_KEY", "hidden")];
    let verify = ["verify", MODEL, DUMP, "--tokens", "1,2,3"];
    let secrets = ["AKIDOTHER", "hidden", "SECRET<", "StringToSign"];
    assert_refused(&ran(&bench, &wrong, &verify), &["access is denied (403)", "AWS_SECRET_ACCESS_KEY"], &secrets);
    assert_refused(&ran(&bench, &[], &verify), &["no credentials are in the environment", "AWS_ACCESS_KEY_ID"], &[]);
    let nowhere = ["verify", "s3://bucket/nothing/model", DUMP, "--tokens", TOKENS];
    let keys = [("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", "hidden")];
    assert_refused(&ran(&bench, &keys, &nowhere), &["has no config.json; found no file at all"], &["hidden"]);
    let url = "https://user:hidden@host/model?X-Amz-Signature=hidden";
    assert_refused(&ran(&bench, &wrong, &["show", url]), &["has a user, a password, a query"], &secrets);
    assert_refused(&ran(&bench, &wrong, &["show", "ftp://host/model"]), &["is of no store that is known"], &secrets);
}

#[test]
fn variables_that_no_request_can_be_made_of_are_refused() {
    let bench = Bench::new();
    let show = ["show", DUMP];
    for key in ["hidden\r", "hid\nden"] {
        let told = ran(&bench, &[("AWS_ACCESS_KEY_ID", key), ("AWS_SECRET_ACCESS_KEY", "hidden")], &show);
        assert_refused(&told, &["AWS_ACCESS_KEY_ID", "has a character that no credential"], &["hid"]);
    }
    for endpoint in ["localhost:8767", "notaurl"] {
        let told = ran(&bench, &[("AWS_ENDPOINT", endpoint)], &show);
        assert_refused(&told, &["AWS_ENDPOINT", "is no URL of a server", "http://HOST:PORT"], &[]);
    }
}

#[test]
fn a_file_url_is_a_path() {
    let model = format!("file://{}", fs::canonicalize(case(CASE)).expect("there").join("model").display());
    let (code, told) = ran(&Bench::new(), &[], &["show", &model]);
    assert_eq!(code, Some(0), "{told}");
}
