//! What is fetched, asked for again, kept and refused.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use fixtures::activations::dump::Dump;
use fixtures::checkpoint::Checkpoint;
use fixtures::folder::Folder;
use fixtures::remote::{Access, Remote};
use reference::weights::{Weight, Weights, inventory};
use tests::server::{Served, Spoilt};

use crate::{Bench, CASE, case};

/// Bytes of each of two tensors in the dump: 16 blocks.
const LARGE: usize = 1 << 20;

/// Bytes of a block.
const BLOCK: usize = 1 << 16;

const TWO: &str = "bucket/two/dump.safetensors";

impl Bench {
    fn served<T>(&self, change: impl FnOnce(&mut Served) -> T) -> T {
        change(&mut self.server.served.lock().expect("free"))
    }

    fn folder(&self, inside: &str, room: u64) -> Folder {
        let access = Access { cache: self.cache.path().into(), room, patience: Duration::from_millis(150) };
        Folder::Remote(Remote::open(Path::new(&self.server.url(inside)), &access).expect("a URL"))
    }

    fn model(&self) -> Result<Checkpoint, fixtures::Error> {
        Checkpoint::read(&self.folder("bucket/case/model", u64::MAX))
    }

    /// What is said where the embedding cannot be read.
    fn embedding(&self) -> Result<(), String> {
        let model = self.model().map_err(|error| error.to_string())?;
        model.get(Weight::Embedding).map(|_| ()).map_err(|error| error.to_string())
    }

    /// A dump of two tensors, a of ones and b of twos, each of which is much more than a block.
    fn two(&self, room: u64) -> Dump {
        self.served(|served| {
            let header = format!(
                r#"{{"a":{{"dtype":"U8","shape":[{LARGE}],"data_offsets":[0,{LARGE}]}},"b":{{"dtype":"U8","shape":[{LARGE}],"data_offsets":[{LARGE},{}]}}}}"#,
                2 * LARGE
            );
            let header = format!("{header:<width$}", width = BLOCK - 8);
            let bytes = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &vec![1; LARGE], &vec![2; LARGE]].concat();
            served.objects.insert(TWO.into(), bytes);
        });
        Dump::read_file(&self.folder("bucket/two", room), "dump.safetensors").expect("a dump")
    }

    /// The files that keep objects.
    fn kept(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.cache.path()).expect("there").map(|entry| entry.expect("readable").path());
        entries.filter(|entry| entry.is_dir()).map(|entry| entry.join("data")).collect()
    }

    /// Bytes that they take on the disk.
    fn taken(&self) -> u64 {
        self.kept().iter().map(|path| fs::metadata(path).expect("there").blocks() * 512).sum()
    }
}

#[test]
fn a_model_by_url_is_the_same_and_is_fetched_once() {
    let bench = Bench::new();
    let local = Checkpoint::open(&case(CASE).join("model")).expect("a checkpoint");
    let weights = inventory(local.config());
    let remote = bench.model().expect("a checkpoint");
    for (weight, _) in &weights {
        let (own, theirs) = (local.get(*weight).expect("there"), remote.get(*weight).expect("fetched"));
        assert_eq!(format!("{own:?}"), format!("{theirs:?}"), "{weight}");
    }
    let whole: usize = bench.served(|served| {
        let files = served.objects.iter().filter(|(path, _)| path.starts_with("bucket/case/model/"));
        files.map(|(_, bytes)| bytes.len()).sum()
    });
    let given = bench.server.given();
    assert!(0 < given && given <= whole, "{given} of {whole}");
    drop(remote);
    let again = bench.model().expect("a checkpoint");
    for (weight, _) in weights {
        again.get(weight).expect("kept");
    }
    assert_eq!(bench.server.given(), 0, "it is kept");
}

#[test]
fn only_what_is_looked_at_is_fetched() {
    let bench = Bench::new();
    let dump = bench.two(u64::MAX);
    assert_eq!(bench.server.given(), BLOCK, "the header");
    assert_eq!(dump.tensor("b").expect("fetched").bytes(), vec![2; LARGE]);
    assert_eq!(bench.server.given(), LARGE);
}

#[test]
fn what_several_look_at_is_fetched_once() {
    let bench = Bench::new();
    let dump = bench.two(u64::MAX);
    bench.server.given();
    thread::scope(|scope| {
        for name in ["a", "b", "a", "b", "a", "b"] {
            let dump = &dump;
            scope.spawn(move || assert_eq!(dump.tensor(name).expect("fetched").bytes()[0], 1 + u8::from(name == "b")));
        }
    });
    assert_eq!(bench.server.given(), 2 * LARGE);
}

#[test]
fn what_fails_in_passing_is_asked_for_again() {
    for how in [Spoilt::Status(503), Spoilt::Status(429), Spoilt::Half, Spoilt::Silent(Duration::from_millis(300))] {
        let bench = Bench::new();
        bench.server.spoil(2, how);
        assert_eq!(bench.embedding(), Ok(()), "{how:?}");
    }
}

#[test]
fn what_goes_on_failing_is_said_without_what_the_server_said() {
    for (how, words) in [
        (Spoilt::Status(503), "the server answers 503, 4 times"),
        (Spoilt::Status(400), "the server answers 400"),
        (Spoilt::Status(401), "the credentials are refused (401), or there are none"),
        (Spoilt::Status(403), "access is denied (403)"),
        (Spoilt::Half, "4 times"),
        (Spoilt::Silent(Duration::from_secs(1)), "no answer in time, 4 times"),
        (Spoilt::Whole, "the server gives no ranges of bytes"),
        (Spoilt::Changed, "was changed while it was read"),
    ] {
        let bench = Bench::new();
        bench.server.spoil(usize::MAX, how);
        let told = bench.embedding().expect_err("it fails");
        assert!(told.contains(words) && !told.contains("SECRET"), "{how:?}: {told}");
    }
}

/// Who asks what a tensor may be goes on without it: what did not come has to be said in the end.
#[test]
fn what_did_not_come_is_remembered() {
    let bench = Bench::new();
    let dump = bench.two(u64::MAX);
    assert!(dump.intact().is_ok(), "nothing was asked for");
    bench.server.spoil(usize::MAX, Spoilt::Status(503));
    assert!(dump.tensor("a").is_err());
    bench.server.spoil(0, Spoilt::Status(503));
    for told in [
        dump.intact().map_err(|error| error.to_string()),
        dump.tensor("b").map(drop).map_err(|error| error.to_string()),
    ] {
        assert!(told.as_ref().is_err_and(|told| told.contains("the server answers 503, 4 times")), "{told:?}");
    }
    let again = bench.two(u64::MAX);
    assert_eq!(again.tensor("a").expect("fetched").bytes(), vec![1; LARGE]);
    assert!(again.intact().is_ok());
}

#[test]
fn an_object_with_a_weak_tag_is_read_and_its_change_is_seen() {
    let bench = Bench::new();
    bench.served(|served| served.weak = true);
    let dump = bench.two(u64::MAX);
    assert_eq!(dump.tensor("a").expect("fetched").bytes()[0], 1);
    bench.server.spoil(1, Spoilt::Changed);
    assert!(dump.tensor("b").expect_err("it changed").to_string().contains("was changed while it was read"));
}

#[test]
fn what_was_damaged_in_the_cache_is_fetched_again() {
    let bench = Bench::new();
    assert_eq!(bench.two(u64::MAX).tensor("a").expect("fetched").bytes(), vec![1; LARGE]);
    for path in bench.kept() {
        let mut bytes = fs::read(&path).expect("there");
        bytes[BLOCK + 7] = 9;
        fs::write(&path, bytes).expect("writable");
    }
    bench.server.given();
    assert_eq!(bench.two(u64::MAX).tensor("a").expect("fetched").bytes(), vec![1; LARGE]);
    assert_eq!(bench.server.given(), BLOCK, "the block that was damaged");
}

#[test]
fn the_cache_keeps_to_its_room() {
    let bench = Bench::new();
    let room = (LARGE + LARGE / 2) as u64;
    drop(bench.two(room).tensor("a").expect("fetched"));
    // The object is open again, and what nobody looked at since goes.
    let dump = bench.two(room);
    assert_eq!(dump.tensor("b").expect("there is room").bytes(), vec![2; LARGE]);
    assert!(bench.taken() <= room, "{} of {room}", bench.taken());
    let told = dump.tensor("a").expect_err("b is in use").to_string();
    assert!(told.contains(&format!("may hold {room} bytes")), "{told}");
    drop(dump);
    // Another version of it: the old one goes.
    bench.served(|served| served.version += 1);
    assert_eq!(bench.two(room).tensor("a").expect("there is room").bytes(), vec![1; LARGE]);
    assert_eq!(bench.kept().len(), 1);
}
