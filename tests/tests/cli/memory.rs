//! `--memory`, and what is told of memory.

use std::path::Path;

use super::{assert_refused, parity};

#[test]
fn what_was_used_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for arguments in
        [&["verify", "m2-mha-top1-f32", "--lens", "local"][..], &["run", "m2-mha-top1-f32", "--out", "x.npz"]]
    {
        let ran = parity(folder.path(), arguments);
        assert_eq!(ran.code, Some(0), "{ran}");
        let told = ran.peak.strip_prefix("peak of anonymous memory: ").and_then(|told| told.strip_suffix(" MiB\n"));
        let told = told.map(|told| told.parse::<f64>().expect("a number"));
        assert_eq!(told.is_some_and(|told| (1.0..1000.0).contains(&told)), cfg!(target_os = "linux"), "{}", ran.peak);
        let quiet = parity(folder.path(), &[arguments, &["--quiet"]].concat());
        assert_eq!((quiet.stderr.as_str(), quiet.peak.as_str()), ("", ""));
    }
}

/// Where there is no room for all of it together, it is done in units, and says the same.
#[test]
fn work_is_done_in_what_there_is_or_refused() {
    let verify = |memory: &[&str]| {
        let ran = parity(Path::new("."), &[&["verify", "m2-gqa3-f32", "--deny", "suspicious"], memory].concat());
        (ran.code, ran.stdout.clone(), ran)
    };
    let (code, stdout, _) = verify(&[]);
    assert_eq!(verify(&["--memory", "64GiB"]).1, stdout);
    assert_eq!(code, Some(0));
    let words = ["--memory 20.0 MiB: request 0, layer 0 needs about", "by an estimate from shapes", "shorter prompt"];
    assert_refused(&verify(&["--memory", "20MiB"]).2, &words);
    assert_refused(&verify(&["--memory", "lots"]).2, &["invalid value 'lots' for '--memory <SIZE>'"]);
    let run = ["run", "m2-gqa3-f32", "--out", "x.npz", "--memory", "20MiB"];
    assert_refused(&parity(Path::new("."), &run), &["--memory 20.0 MiB: running m2-gqa3-f32 needs about"]);
}

/// What is done after the lenses is refused before them: trying mistakes takes twice as much as looking.
#[test]
fn what_comes_last_is_refused_before_the_work() {
    let verify = |more: &[&str]| parity(Path::new("."), &[&["verify", "m2-gqa3-f32"], more].concat());
    let refused = verify(&["--memory", "20MiB"]);
    let told = refused.said();
    let about = told.iter().position(|word| *word == "about").expect("it tells how much a layer needs");
    let need: f64 = told[about + 1].parse().expect("a number");
    let memory = format!("{:.1}{}", 1.5 * need, told[about + 2]);
    assert_eq!(verify(&["--memory", &memory]).code, Some(0));
    assert_refused(&verify(&["--memory", &memory, "--coverage"]), &["request 0, coverage needs about"]);
}
