//! Mistakes that harnesses are known to make, in ours: what the comparator and the lens are held to here, they keep, and
//! with any of these mistakes they would not.

mod comparator;
mod lens;

use std::fmt::Debug;

/// What a harness is held to.
struct Check<H: ?Sized> {
    name: &'static str,
    holds: fn(&H) -> bool,
}

/// The real harness passes every check, each mutant fails one, and each check fails some mutant.
fn demand<H: ?Sized, M: Debug + Copy>(checks: &[Check<H>], real: &H, mutants: &[M], as_harness: impl Fn(M) -> Box<H>) {
    let failed = |harness: &H| checks.iter().filter(|check| !(check.holds)(harness)).map(|check| check.name).collect();
    let by_real: Vec<&str> = failed(real);
    assert!(by_real.is_empty(), "the real one fails {by_real:?}");
    let by_mutants: Vec<(M, Vec<&str>)> = mutants.iter().map(|&mutant| (mutant, failed(&as_harness(mutant)))).collect();
    for (mutant, failed) in &by_mutants {
        assert!(!failed.is_empty(), "{mutant:?} passes every check");
    }
    for check in checks {
        let fails = by_mutants.iter().any(|(_, failed)| failed.contains(&check.name));
        assert!(fails, "`{}` fails no mutant: there is a mistake to add, or a check to leave out", check.name);
    }
}
