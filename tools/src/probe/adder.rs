//! The arithmetic that adds terms: how wide it is, how it rounds, what it makes of subnormal numbers.

use std::fmt;

use reference::contract::{Accumulator, TensorCore};
use reference::{Real, Storage};

use super::function::Kind;
use super::random::Draw;
use super::terms::Terms;
use super::tree::Tree;
use crate::failure::Failure;

/// Where a sum that is not representable goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the nearest, of two equally near ones to the even.
    NearestEven,
    /// To the nearest, of two equally near ones away from zero.
    NearestAway,
    /// To zero: it is cut off.
    Zero,
    /// To −∞.
    Down,
    /// To +∞.
    Up,
}

/// How terms are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Adder {
    /// Significant bits of a sum; `None` where nothing was lost.
    pub bits: Option<i32>,
    /// Where the rest goes; `None` where that is no known way.
    pub direction: Option<Direction>,
    /// Bits that fused steps keep below the largest term's; `None` where steps add two.
    pub fraction: Option<i32>,
}

/// What is below the smallest normal number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnormal {
    /// Whether such terms count.
    pub terms: bool,
    /// Whether such sums do.
    pub sums: bool,
}

/// How many random sums are foretold.
const FORETOLD: usize = 64;

/// How small a second term is made, as a power of two.
const SMALLEST: i32 = 60;

impl Terms<'_, '_> {
    /// The sum of a few terms at places of their own.
    fn few(&mut self, rows: &[&[(usize, f64)]]) -> Result<Vec<f64>, Failure> {
        let n = self.probed.size;
        let row = |terms: &&[(usize, f64)]| {
            let mut row = vec![0.0; n];
            terms.iter().for_each(|&(place, term)| row[place] = term);
            row
        };
        self.sums(&rows.iter().map(row).collect::<Vec<_>>())
    }

    /// A power of two with room below it.
    fn one(&self) -> f64 {
        if self.probed.storage == Storage::F16 { 1024.0 } else { 1.0 }
    }

    /// The largest t where (1 + 2⁻ᵗ) − 1, added in the order of the places, is 2⁻ᵗ.
    fn kept(&mut self, [i, j, k]: [usize; 3]) -> Result<i32, Failure> {
        let one = self.one();
        let smalls: Vec<f64> = (1..=self.most()).map(|t| one * 2.0_f64.powi(-t)).collect();
        let rows: Vec<[(usize, f64); 3]> = smalls.iter().map(|&small| [(i, one), (j, small), (k, -one)]).collect();
        let sums = self.few(&rows.iter().map(<[_; 3]>::as_slice).collect::<Vec<_>>())?;
        let kept = smalls.iter().zip(sums).take_while(|&(&small, sum)| sum == small).count();
        Ok(i32::try_from(kept).expect("at most 60"))
    }

    /// The largest t that is tried there.
    fn most(&self) -> i32 {
        if self.probed.storage == Storage::F16 { 34 } else { SMALLEST }
    }

    /// The arithmetic of sums in an order; `None` where all terms are added at once, so that nothing takes away what was added.
    pub(super) fn adder(&mut self, tree: &Tree) -> Result<Option<Adder>, Failure> {
        let fraction = match tree.at_once() {
            Some(places) => Some(self.kept(places)?),
            None => None,
        };
        let path = tree.path();
        let &[i, j, .., k] = &path[..] else { return Ok(None) };
        let one = self.one();
        let kept = self.kept([i, j, k])?;
        if kept == self.most() {
            return Ok(Some(Adder { bits: None, direction: None, fraction }));
        }
        let last = one * 2.0_f64.powi(-kept);
        let more = |sign: f64, part: f64| [(i, sign * one), (j, sign * part * last), (k, -sign * one)];
        let (up, down, half) = (more(1.0, 0.75), more(-1.0, 0.75), more(1.0, 0.5));
        let mut rows: Vec<&[(usize, f64)]> = vec![&up, &down, &half];
        let odd;
        if let &[i, j, m, .., k] = &path[..] {
            odd = [(i, one), (j, last), (m, 0.5 * last), (k, -one)];
            rows.push(&odd);
        }
        let sums: Vec<f64> = self.few(&rows)?.into_iter().map(|sum| sum / last).collect();
        let of_odd = sums.get(3).copied();
        let direction = match (sums[0], sums[1], sums[2]) {
            (1.0, -1.0, 0.0) if of_odd.is_none_or(|odd| odd == 2.0) => Some(Direction::NearestEven),
            (1.0, -1.0, 1.0) if of_odd.is_none_or(|odd| odd == 2.0) => Some(Direction::NearestAway),
            (0.0, 0.0, 0.0) => Some(Direction::Zero),
            (0.0, -1.0, 0.0) => Some(Direction::Down),
            (1.0, 0.0, 1.0) => Some(Direction::Up),
            _ => None,
        };
        Ok(Some(Adder { bits: Some(kept + 1), direction, fraction }))
    }

    /// Bits of a term that is alone; `None` where all of its storage's are kept.
    pub(super) fn term_bits(&mut self) -> Result<Option<i32>, Failure> {
        let own = bits_of(self.probed.storage);
        let kept = 1 + self.kept_alone(own - 1)?;
        Ok((kept < own.min(bits_of(self.probed.output))).then_some(kept))
    }

    fn kept_alone(&mut self, most: i32) -> Result<i32, Failure> {
        let one = self.one();
        let values: Vec<f64> = (1..=most).map(|t| one + one * 2.0_f64.powi(-t)).collect();
        let rows: Vec<[(usize, f64); 1]> = values.iter().map(|&value| [(0, value)]).collect();
        let sums = self.few(&rows.iter().map(<[_; 1]>::as_slice).collect::<Vec<_>>())?;
        let kept = values.iter().zip(sums).take_while(|&(&value, sum)| sum == value).count();
        Ok(i32::try_from(kept).expect("few"))
    }

    /// Whether products are added before they are rounded; `None` where no product of two terms needs rounding, or two are not
    /// added one after the other.
    pub(super) fn multiplies_and_adds(&mut self, tree: &Tree, adder: &Adder) -> Result<Option<bool>, Failure> {
        let (own, path) = (bits_of(self.probed.storage), tree.path());
        let known =
            adder.bits == Some(own) && adder.direction == Some(Direction::NearestEven) && adder.fraction.is_none();
        if self.probed.kind != Kind::Product || !known {
            return Ok(None);
        }
        // (1 + e)² = 1 + 2e + e², of which e² is what rounding leaves out.
        let e = 2.0_f64.powi(-(own + 1) / 2);
        let mut found = false;
        for (i, j) in [(path[0], path[1]), (path[1], path[0])] {
            let (mut row, mut factors) = (vec![0.0; self.probed.size], vec![1.0; self.probed.size]);
            (row[i], factors[i], row[j]) = (1.0 + e, 1.0 + e, -(1.0 + 2.0 * e));
            found |= self.products(&[row], &factors)? == [e * e];
        }
        Ok(Some(found))
    }

    /// What becomes of numbers below the smallest normal one; `None` where the output's range is another.
    pub(super) fn subnormal(&mut self, tree: &Tree) -> Result<Option<Subnormal>, Failure> {
        let smallest = match self.probed.storage {
            Storage::Real => f64::MIN_POSITIVE,
            storage => storage.smallest_normal(),
        };
        let of_output = match self.probed.output {
            Storage::Real => f64::MIN_POSITIVE,
            storage => storage.smallest_normal(),
        };
        if smallest != of_output || self.probed.kind == Kind::Attention {
            return Ok(None);
        }
        let path = tree.path();
        let (i, j) = (path[0], path[1]);
        let of_terms = [(i, smallest), (j, smallest / 8.0)];
        let of_sums = [(i, 1.5 * smallest), (j, -smallest)];
        let sums = self.few(&[&of_terms, &of_sums])?;
        Ok(Some(Subnormal { terms: sums[0] == 1.125 * smallest, sums: sums[1] == 0.5 * smallest }))
    }

    /// How many random sums are, to the last bit, what this order and this arithmetic make of them, of how many.
    pub(super) fn foretold(&mut self, tree: &Tree, adder: &Adder) -> Result<(usize, usize), Failure> {
        // From so many powers of two that the smallest are lost, more or less of them in other orders; f16 has no room for more.
        let bits = usize::try_from(adder.bits.unwrap_or(53)).expect("above 0");
        let powers = if self.probed.storage == Storage::F16 { 21 } else { bits + 8 };
        let mut draw = Draw::new(7);
        let mut row = || draw.terms(self.probed.size, 2.0_f64.powi(-14), powers);
        let rows: Vec<Vec<f64>> = (0..FORETOLD).map(|_| row()).collect();
        let sums = self.sums(&rows)?;
        let output = self.probed.output;
        let is_foretold = |(row, sum): &(&Vec<f64>, f64)| {
            let foretold = output.nearest(tree.sum(row, &|values, has_term| adder.add(values, has_term)));
            foretold == *sum
        };
        Ok((rows.iter().zip(sums).filter(is_foretold).count(), FORETOLD))
    }
}

impl Adder {
    /// What it makes of values that are added at once; fused steps are those that add a term, the others promotions.
    fn add(&self, values: &[f64], has_term: bool) -> f64 {
        match (self.fraction, self.bits) {
            (Some(fraction), Some(bits)) if has_term => {
                let k = u32::try_from(values.len()).expect("as many as terms at most");
                let core = TensorCore { k, fraction, result: bits - 1, promote: None };
                core.dot(values.iter().map(|&value| (value, 1.0)))
            }
            (Some(_), _) => values.iter().fold(0.0, |sum, &value| f64::from(f32::of(sum + value))),
            (None, bits) => values.iter().copied().reduce(|sum, value| self.rounded(sum + value, bits)).unwrap_or(0.0),
        }
    }

    /// An exact sum as it comes out. A sum in f64 of values of 24 bits may be off itself, by less than a rounding tells.
    fn rounded(&self, sum: f64, bits: Option<i32>) -> f64 {
        let Some(bits) = bits.filter(|&bits| bits < 53 && sum != 0.0) else { return sum };
        let exponent = i32::try_from(sum.to_bits() >> 52 & 0x7ff).expect("eleven bits") - 1023;
        let last = 2.0_f64.powi(exponent - bits + 1);
        let units = sum / last;
        last * match self.direction {
            Some(Direction::NearestEven) | None => units.round_ties_even(),
            Some(Direction::NearestAway) => units.round(),
            Some(Direction::Zero) => units.trunc(),
            Some(Direction::Down) => units.floor(),
            Some(Direction::Up) => units.ceil(),
        }
    }

    /// The accumulator that a precision calls so; `None` where it is none that is known.
    pub(super) fn accumulator(&self, tree: &Tree, subnormal: Option<Subnormal>) -> Option<Accumulator> {
        let flushes = subnormal.is_some_and(|subnormal| !(subnormal.terms && subnormal.sums));
        match (self.fraction, self.bits, self.direction) {
            (None, Some(24), Some(Direction::NearestEven)) if flushes => Some(Accumulator::F32Flushed),
            (None, Some(24), Some(Direction::NearestEven)) => Some(Accumulator::F32),
            (None, Some(53), Some(Direction::NearestEven)) => Some(Accumulator::F64),
            (Some(fraction), Some(bits), Some(Direction::Zero)) => {
                let (width, block) = tree.fused_steps()?;
                let narrow = |number: usize| u32::try_from(number).ok();
                let promote = match block {
                    Some(block) => Some(narrow(block)?),
                    None => None,
                };
                Some(Accumulator::TensorCore(TensorCore { k: narrow(width)?, fraction, result: bits - 1, promote }))
            }
            _ => None,
        }
    }
}

/// Significant bits of a storage.
pub(super) fn bits_of(storage: Storage) -> i32 {
    match storage {
        Storage::Real => 53,
        Storage::F32 => 24,
        Storage::Tf32(_) | Storage::F16 => 11,
        Storage::Bf16 => 8,
        Storage::E4m3 => 4,
        Storage::E5m2 => 3,
    }
}

/// What so many bits are called.
pub(super) fn width(bits: i32) -> String {
    match bits {
        53 => "f64".into(),
        24 => "f32".into(),
        11 => "f16 or tf32 (11 bits)".into(),
        8 => "bf16".into(),
        _ => format!("{bits} bits"),
    }
}

/// In words.
impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::NearestEven => "to nearest, ties to even",
            Direction::NearestAway => "to nearest, ties away from zero",
            Direction::Zero => "toward zero",
            Direction::Down => "toward −∞",
            Direction::Up => "toward +∞",
        })
    }
}

/// In words.
impl fmt::Display for Adder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(bits) = self.bits else {
            return write!(f, "wider than {SMALLEST} bits");
        };
        let direction = self.direction.map_or("in no known way".into(), |direction| direction.to_string());
        match self.fraction {
            Some(fraction) => write!(
                f,
                "fused steps keep {fraction} bits below the largest term, and of their sum {bits}, rounded {direction}"
            ),
            None => write!(f, "{}, rounded {direction}", width(bits)),
        }
    }
}
