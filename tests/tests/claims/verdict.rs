//! How a stated number is held to what is recomputed, and how numbers are printed.

use tools::claims::claim::claim;
use tools::claims::document::Document;
use tools::claims::unit::{B, DECIMAL, GB, GIB, ONE_IN, PERCENT, TIMES, fitting};
use tools::claims::verdict::Verdict;

#[test]
fn a_number_holds_if_it_rounds_to_what_is_stated() {
    for (stated, recomputed, decimals, verdict) in [
        (224.7, 224.680, 1, Verdict::Holds),
        (3.1, 3.125, 1, Verdict::Holds),
        (134.2, 134.25, 1, Verdict::Close),
        (134.3, 134.25, 1, Verdict::Holds),
        (17.0, 16.667, 0, Verdict::Holds),
        (230.0, 228.69, 0, Verdict::Close),
        (101.0, 100.0, 0, Verdict::Close),
        (101.1, 100.0, 1, Verdict::Fails),
        (98.9, 100.0, 1, Verdict::Fails),
        (1.0, 0.0, 0, Verdict::Fails),
        (0.0, 0.0, 0, Verdict::Holds),
        (1.0, f64::NAN, 0, Verdict::Fails),
        (1.0, f64::INFINITY, 0, Verdict::Fails),
    ] {
        assert_eq!(Verdict::rounded(stated, recomputed, decimals), verdict, "{stated} {recomputed}");
    }
}

#[test]
fn all_digits_are_right_or_the_number_is_not() {
    assert_eq!(Verdict::exact(15_300_820_992.0, 15_300_820_992.0), Verdict::Holds);
    assert_eq!(Verdict::exact(15_293_907_456.0, 15_300_820_992.0), Verdict::Fails);
    assert_eq!(Verdict::exact(1.0, f64::NAN), Verdict::Fails);
}

#[test]
fn a_claim_is_as_good_as_its_worst_figure() {
    let it = || claim("E0-01", Document::S0, "CH1", "it").rounded("2.0", B, 2e9);
    assert_eq!(it().verdict, Verdict::Holds);
    assert_eq!(it().external().verdict, Verdict::External);
    assert_eq!(it().rounded("2.0", B, 1.99e9).rounded("2.00", B, 1.99e9).verdict, Verdict::Close);
    assert_eq!(it().exact("3", TIMES, 2.0).rounded("2", B, 2e9).verdict, Verdict::Fails);
    assert_eq!(it().count("3", 2).external().verdict, Verdict::Fails);
    assert_eq!(claim("E0-01", Document::S0, "", "it").unstated(TIMES, 2.0).verdict, Verdict::Unstated);
    let figure = &it().rounded("1,000.5", GB, 2001e9).figures[1];
    assert_eq!((figure.stated.as_str(), figure.recomputed.as_str()), ("1,000.5 GB", "2,001 GB"));
    assert_eq!(figure.relative_difference, Some(-0.5));
    assert_eq!(it().count("3", 0).figures[1].relative_difference, None);
}

#[test]
fn numbers_have_a_digit_more_than_is_stated_and_four_at_least() {
    for (shown, expected) in [
        (B.show(224.680e9, 1), "224.68 B"),
        (B.show(224.68e9, 4), "224.68 B"),
        (B.show(11_006_240_768.0, 2), "11.006 B"),
        (PERCENT.show(0.000_009_209, 3), "0.0009209 %"),
        (TIMES.show(6.0, 0), "6×"),
        (TIMES.show(0.0, 0), "0×"),
        (ONE_IN.show(5.2083, 0), "1/5.208"),
        (GIB.show(1_234_567_890_123.0, 0), "1,149.8 GiB"),
        (fitting(&DECIMAL, 137_472.0), "137.5 kB"),
        (fitting(&DECIMAL, 0.0), "0 B"),
        (fitting(&DECIMAL, 5e12), "5,000 GB"),
    ] {
        assert_eq!(shown, expected);
    }
}
