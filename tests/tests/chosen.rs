//! The picture of what each token chose.

use proptest::prelude::*;
use tools::judge::chosen::{Chosen, PARTS, Row, Standing};

/// A choice as the reference's.
fn alike(chosen: Vec<usize>) -> Row {
    Row { chosen, other: Vec::new(), standing: Standing::Same }
}

#[test]
fn a_small_picture_is_the_choice_itself() {
    let other = |standing, other| Row { chosen: vec![0], other, standing };
    let rows =
        [alike(vec![1, 2]), other(Standing::Legal, vec![0, 1]), alike(vec![4]), other(Standing::Illegal, vec![4])];
    let picture = Chosen::of((4, 5), 2, rows.into_iter());
    let (all, legal, illegal) = (PARTS, PARTS + 1, 2 * (PARTS + 1));
    let expected = [[0, all, all, 0, 0], [all + legal, legal, 0, 0, 0], [0, 0, 0, 0, all], [all, 0, 0, 0, illegal]];
    assert_eq!(picture.map, ndarray::arr2(&expected));
    assert_eq!((picture.dim, picture.tokens), ((4, 5), 2));
}

proptest! {
    /// A chooser that chose nothing has no colour, however many tokens share a tile; one that chose has.
    #[test]
    fn choosers_do_not_share_tiles(choosers in 1_usize..5, tokens in 1_usize..500, choices in 1_usize..300, busy in 0_usize..5) {
        let busy = busy % choosers;
        let row = |row: usize| alike(if row / tokens == busy { (0..choices).collect() } else { Vec::new() });
        let picture = Chosen::of((choosers * tokens, choices), tokens, (0..choosers * tokens).map(row));
        let each = picture.map.nrows() / choosers;
        prop_assert_eq!(each * choosers, picture.map.nrows());
        for (down, row) in picture.map.rows().into_iter().enumerate() {
            let expected = if down / each == busy { PARTS } else { 0 };
            prop_assert!(row.iter().all(|&level| level == expected), "{} {:?}", down, row);
        }
    }

    /// A share is rounded up: what one token of a tile chose is seen.
    #[test]
    fn one_choice_is_seen(tokens in 1_usize..2000, choices in 1_usize..1000, token in 0_usize..2000, choice in 0_usize..1000) {
        let (token, choice) = (token % tokens, choice % choices);
        let row = |row: usize| alike(if row == token { vec![choice] } else { Vec::new() });
        let picture = Chosen::of((tokens, choices), tokens, (0..tokens).map(row));
        prop_assert_eq!(picture.map.iter().filter(|&&level| level > 0).count(), 1);
    }
}
