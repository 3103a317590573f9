//! What came of speculative decoding, as text.

use std::fmt::Write;

use reference::ops::sampling::Choice;
use reference::speculative::Acceptance;

use super::figures::counted;

/// Whether the tokens are those of plain decoding, and where they first are not.
pub fn beside_plain(choices: &[Choice], plain: &[Choice]) -> String {
    let differs = choices.iter().zip(plain).position(|(with, without)| with.token != without.token);
    match differs {
        None if choices.len() == plain.len() => {
            format!("the {} are those of plain decoding", counted(choices.len(), "token"))
        }
        None => format!("{} with drafts, and plainly {}", counted(choices.len(), "token"), plain.len()),
        Some(position) => format!(
            "position {position} has token {}, and in plain decoding {}, with a margin of {:.6}",
            choices[position].token, plain[position].token, plain[position].margin
        ),
    }
}

/// How many drafts were accepted, place by place.
pub fn accepted(acceptance: &Acceptance) -> String {
    let Some(share) = acceptance.share() else { return "no drafts were made".to_owned() };
    let percent = |accepted: usize, drafted: usize| 100.0 * accepted as f64 / drafted as f64;
    let mut text = format!(
        "{} verified; {:.1} % of the drafts were accepted\n{:>8} {:>8} {:>8} {:>7}",
        counted(acceptance.rounds, "round"),
        100.0 * share,
        "place",
        "drafts",
        "accepted",
        "%"
    );
    for (place, (drafted, accepted)) in acceptance.drafted.iter().zip(&acceptance.accepted).enumerate() {
        let _ = write!(text, "\n{:>8} {drafted:>8} {accepted:>8} {:>7.1}", place + 1, percent(*accepted, *drafted));
    }
    text
}
