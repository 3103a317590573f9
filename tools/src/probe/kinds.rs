//! What is asked of each kind of function, and how the answers are put together.

use reference::Storage;
use reference::contract::ORDERS;
use reference::reduction::Reduction;
use reference::rounding::AttentionRound;

use super::adder::{Adder, Subnormal, width};
use super::form::Form;
use super::found::{Found, narrows, storage_words};
use super::function::{Kind, Probed};
use super::terms::{Terms, room};
use super::tree::Tree;
use super::{positive, rounding};
use crate::failure::Failure;

/// Asks a function all that its kind answers.
pub(super) fn probe(probed: &mut Probed<'_>, found: &mut Found) -> Result<(), Failure> {
    found.say("function", probed.kind.signature().replace("size", &probed.size.to_string()));
    match probed.kind {
        Kind::Product | Kind::Sum => signed(probed, found),
        Kind::Attention if probed.storage == Storage::F16 => {
            found.say("order", "not told: f16 has no room for terms that vanish in a mean; probe it in bf16 or f32");
            rounded(probed, found)
        }
        Kind::Attention => {
            signed(probed, found)?;
            rounded(probed, found)
        }
        Kind::Norm | Kind::AddNorm | Kind::Softmax => {
            one_sign(probed, found)?;
            rounded(probed, found)
        }
    }
}

/// What is told of sums of terms of either sign.
struct Signed {
    tree: Tree,
    /// `None` where nothing takes away what was added.
    adder: Option<Adder>,
    /// How many random sums were foretold, of how many.
    foretold: Option<(usize, usize)>,
}

impl Signed {
    fn of(terms: &mut Terms<'_, '_>) -> Result<Option<Self>, Failure> {
        let Some(tree) = terms.order()? else { return Ok(None) };
        let adder = terms.adder(&tree)?;
        let foretold = adder.as_ref().map(|adder| terms.foretold(&tree, adder)).transpose()?;
        Ok(Some(Signed { tree, adder, foretold }))
    }

    /// Whether it foretells all that was tried.
    fn is_sure(&self) -> bool {
        self.foretold.is_none_or(|(right, all)| right == all)
    }
}

/// Sums of terms of either sign: those of products, of rows, and of attention's weighted values.
fn signed(probed: &mut Probed<'_>, found: &mut Found) -> Result<(), Failure> {
    let rows = room(probed.kind);
    let mut terms = Terms { probed, rows, differ: false };
    let narrowed = terms.term_bits()?;
    inputs(narrowed, terms.probed, found)?;
    let mut told = Signed::of(&mut terms)?;
    if !told.as_ref().is_some_and(Signed::is_sure) {
        // Some libraries add the rows of a tile in several orders.
        terms.rows = 1;
        let of_first = Signed::of(&mut terms)?.filter(Signed::is_sure);
        if of_first.is_some() {
            found.say("rows", "are added in several orders: what follows is the first's");
            told = of_first;
        } else {
            terms.rows = rows;
        }
    }
    let Some(Signed { tree, adder, foretold }) = told else {
        found.say(
            "order",
            "no tree: what is left beside a huge term and its negative is no number of terms. The sum is exact or compensated, its \
             order changes, or too many terms are added at once",
        );
        return Ok(());
    };
    found.say("order", Form::of(&tree).to_string());
    found.say("depth", format!("a term goes through {} additions at most", tree.depth()));
    if terms.differ {
        found.say("columns", "of equal right sides come out otherwise: the order is that of the first");
    }
    let subnormal = terms.subnormal(&tree)?;
    (found.subnormal, found.foretold) = (subnormal, foretold);
    match &adder {
        Some(adder) => told_of(&mut terms, (&tree, adder, subnormal), found)?,
        None => found.say("sums", "not told: all terms are added at once"),
    }
    if let Some(Subnormal { terms, sums }) = subnormal {
        found.say(
            "subnormal",
            match (terms, sums) {
                (true, true) => "numbers below the smallest normal one are kept",
                (false, true) => "terms below the smallest normal number count as zero, sums are kept",
                (true, false) => "sums below the smallest normal number become zero, terms count",
                (false, false) => "terms and sums below the smallest normal number become zero",
            },
        );
    }
    output(terms.probed, adder.and_then(|adder| adder.bits), found);
    (found.order, found.adder) = (Some(tree), adder);
    Ok(())
}

/// What the arithmetic is, whether it and the order foretell sums, and what it is called if they do.
fn told_of(
    terms: &mut Terms<'_, '_>,
    (tree, adder, subnormal): (&Tree, &Adder, Option<Subnormal>),
    found: &mut Found,
) -> Result<(), Failure> {
    found.say("sums", adder.to_string());
    if let Some(fused) = terms.multiplies_and_adds(tree, adder)? {
        let words = if fused { "are added before they are rounded" } else { "are rounded before they are added" };
        found.say("products", words);
    }
    let Some((right, all)) = found.foretold else { return Ok(()) };
    found.say("foretold", format!("{right} of {all} random sums, bit for bit, by this order and this arithmetic"));
    if right < all {
        return Ok(());
    }
    match terms.probed.kind {
        Kind::Product => {
            let accumulator = adder.accumulator(tree, subnormal);
            found.set(accumulator.map(|accumulator| ("accumulator", accumulator.to_string())).into_iter().collect())
        }
        Kind::Sum => found.set(reduction(tree, terms.probed.size).into_iter().collect()),
        _ => Ok(()),
    }
}

/// What becomes of inputs before they are added or multiplied.
fn inputs(narrowed: Option<i32>, probed: &Probed<'_>, found: &mut Found) -> Result<(), Failure> {
    let own = storage_words(probed.storage);
    let Some(bits) = narrowed else {
        found.say("inputs", format!("{own}, as they are"));
        return Ok(());
    };
    found.say("inputs", format!("{own}, of which {bits} significant bits are kept: {}", width(bits)));
    let is_bf16 = probed.kind == Kind::Product && bits == 8;
    found.set(if is_bf16 { vec![("operands", "bf16".to_owned())] } else { Vec::new() })
}

/// How the result is rounded, where it is narrower than sums are.
fn output(probed: &Probed<'_>, bits: Option<i32>, found: &mut Found) {
    let (storage, rounds) = (storage_words(probed.output), bits.is_none_or(|bits| narrows(bits, probed.output)));
    found.say("output", if rounds { format!("{storage}, rounded once from the sum") } else { storage });
}

/// The reduction whose depth a sum of so many terms keeps to.
fn reduction(tree: &Tree, size: usize) -> Option<(&'static str, String)> {
    let own = Tree::of_lanes(ORDERS.row, size).map(|own| own.sorted());
    if own.as_ref() == Some(&tree.sorted()) {
        return Some(("reduction", Reduction::Parity.to_string()));
    }
    let is_flat = tree.depth() <= Reduction::Torch.depth(size) && Reduction::Torch.depth(size) < size;
    is_flat.then(|| ("reduction", Reduction::Torch.to_string()))
}

/// Sums of terms of one sign: squares, and exponentials.
fn one_sign(probed: &mut Probed<'_>, found: &mut Found) -> Result<(), Failure> {
    let Some(summed) = positive::summed(probed)? else {
        let output = storage_words(probed.output);
        found.say("order", format!("not told: values in {output} do not show the sum's last place; probe it in f32"));
        return Ok(());
    };
    match &summed.tree {
        None => found.say("order", "no tree: what two of three terms give is not told by which are added first"),
        Some(tree) => {
            let own = Tree::of_lanes(ORDERS.row, probed.size).and_then(|own| own.among(&summed.places));
            let is_own = own.map(|own| own.sorted()).as_ref() == Some(&tree.sorted()) && probed.kind != Kind::Softmax;
            let among = summed.places.len();
            let words = match tree {
                Tree::Sum(parts) if parts.len() == among => {
                    ": all at once, exactly or in a wider type, and rounded once"
                }
                _ if is_own => ", as our kernels add a row",
                _ => "",
            };
            found.say("order", format!("{} among {among} terms{words}", tree.sorted()));
            if is_own {
                found.set(vec![("reduction", Reduction::Parity.to_string())])?;
            }
        }
    }
    found.say("sums", width(summed.bits));
    (found.bits, found.order, found.places) = (Some(summed.bits), summed.tree, Some(summed.places));
    Ok(())
}

/// Where an operator rounds, if its output is in a narrow type.
fn rounded(probed: &mut Probed<'_>, found: &mut Found) -> Result<(), Failure> {
    let is_narrow = matches!(probed.storage, Storage::Bf16 | Storage::F16);
    if !is_narrow {
        found.say(
            "rounds",
            "not told: in f32 and f64, arithmetic and values are rounded alike; probe it in bf16 or f16",
        );
        return Ok(());
    }
    let (words, fields) = rounding::told(probed)?;
    if probed.output != probed.storage {
        let (output, own) = (storage_words(probed.output), storage_words(probed.storage));
        found.say("rounds", format!("not told: the output is in {output}, the inputs in {own}"));
        return Ok(());
    }
    found.say("rounds", words);
    // These two round alike; a base that knows the exponential knows more.
    let flash = [AttentionRound::Flash, AttentionRound::Sdpa];
    let knows = |(field, value): &(&'static str, String)| {
        let is_flash = *field == "attention" && *value == AttentionRound::Flash.to_string();
        is_flash && flash.contains(&found.precision.attention)
    };
    let fields = fields.into_iter().filter(|field| !knows(field)).collect();
    found.set(fields)
}
