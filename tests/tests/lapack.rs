//! What is said with LAPACK, in a binary of its own: the system's `OpenBLAS` is not everywhere.

use reference::LayerSite;
use tests::seen::pattern;

#[test]
fn an_error_of_one_direction_is_told() {
    let said = pattern(LayerSite::OProj, |mut x| {
        for (i, mut row) in x.rows_mut().into_iter().enumerate() {
            row[3] += 1.0 + i as f64;
            row[9] -= 2.0 * (1.0 + i as f64);
        }
        x
    });
    assert!(
        said.contains("the error has rank 1 of 40; 100 % of it lies along one direction, largest at 9, 3"),
        "{said}"
    );
}
