//! What commands that write a checkpoint have in common.

use std::path::Path;

use fixtures::Error;
use fixtures::checkpoint::write::Progress;

use super::outcome::Outcome;
use crate::failure::Failure;
use crate::report::output::Output;

const MIB: u64 = 1 << 20;

/// The bytes of a file, at most, from `--shard-size` in GiB.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a size, to the byte below")]
pub(super) fn file_size(shard_size: f64) -> Result<u64, Failure> {
    if shard_size.is_nan() || shard_size <= 0.0 {
        let problem = format!("--shard-size {shard_size}: expected more than 0 GiB");
        return Err(Failure::new(problem).help("for instance --shard-size 4"));
    }
    Ok((shard_size * (1u64 << 30) as f64) as u64)
}

/// Writes a folder behind a bar, and says its name.
pub(super) fn written(
    folder: &Path,
    output: Output,
    write: impl FnOnce(&dyn Fn(Progress)) -> Result<(), Error>,
) -> Result<Outcome, Failure> {
    let bar = output.progress(0, "writing MiB");
    write(&|progress| {
        bar.set_length(progress.total / MIB);
        bar.set_position(progress.done / MIB);
    })?;
    bar.finish_and_clear();
    output.say(&format!("{}", folder.display()));
    Ok(Outcome::Good)
}
