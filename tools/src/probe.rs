//! What a function of one's own does with the last bits, told from what it makes of crafted inputs: in which order it adds, in
//! what arithmetic, and where it rounds.
//!
//! The order is that of `FPRev` (Xie, Gao, Yang and Lu, arXiv 2411.00442): a huge term swallows all that is added to it, until
//! its negative takes it away; what is left counts the terms that were added afterwards. Sums of terms of one sign, in a norm
//! and a softmax, are told by terms of a third of the sum's last place, which vanish alone and are seen where two of them
//! were added first.
//!
//! Reading order: [`function`], what is probed, and by what arrays; [`question`], what is asked of it; [`tree`], an order of
//! additions, and [`form`], what is regular in it; `terms`, sums of terms of either sign, and `adder`, the arithmetic that adds
//! them; `positive`, sums of one sign; `rounding`, where an operator rounds; `kinds`, what each kind of function is asked;
//! [`found`], what was found.

mod adder;
pub mod form;
pub mod found;
pub mod function;
mod kinds;
mod positive;
pub mod question;
mod random;
mod rounding;
mod terms;
pub mod tree;

use reference::Storage;

use crate::failure::Failure;
use found::Found;
use function::{Function, Kind, Probed};
use question::Question;

/// Fewest and most terms of a sum.
const SIZES: [usize; 2] = [8, 1 << 16];

/// Finds out how a function adds and rounds.
///
/// The function is called with arrays whose values its storage holds, in the shapes of [`Kind::signature`], some hundred times.
///
/// An error is what the function gives, values of another shape than the kind's, a size that it cannot have, or a storage of 8
/// bits. What cannot be told is no error, but said in the finding.
pub fn probe(function: &mut Function<'_>, question: &Question) -> Result<Found, Failure> {
    if matches!(question.storage, Storage::E4m3 | Storage::E5m2) {
        let help = "give f64, f32, bf16 or f16; quantize within the function";
        return Err(Failure::new("probe: values of 8 bits have no room for terms that vanish").help(help));
    }
    let size = question.size.unwrap_or(question.kind.usual_size());
    let fits = SIZES[0] <= size && size <= SIZES[1] && (question.kind != Kind::Attention || size.is_power_of_two());
    if !fits {
        let of_two = if question.kind == Kind::Attention { ", a power of two" } else { "" };
        let problem = format!("probe: size {size}, expected {} to {}{of_two}", SIZES[0], SIZES[1]);
        return Err(Failure::new(problem).help("size is the number of terms of a sum: channels, or keys of attention"));
    }
    let mut probed = Probed::new(function, question.kind, question.storage, size);
    let mut found = Found::new(question);
    kinds::probe(&mut probed, &mut found)?;
    Ok(found)
}
