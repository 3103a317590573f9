//! The order in which terms of one sign are added, told by what vanishes.
//!
//! A term of a third of the last place of a sum M is lost where it is added to M, and two of them are seen where they were added
//! to each other first. So of three places it is told which two are added first. What is seen is read off values that came out
//! otherwise for a sum that is one place larger; such are looked for, since what is shown may be much narrower than the sum.

use reference::Storage;

use super::adder::bits_of;
use super::function::{Kind, Probed, ROWS, array};
use super::random::Draw;
use super::tree::{Tree, build};
use crate::failure::Failure;

/// Widths of sums that are tried, in bits.
const WIDTHS: [i32; 4] = [8, 11, 24, 53];

/// How large the terms that are lost alone are, in units of the last place.
const LOST: [f64; 2] = [0.27, 0.47];

/// How large a term that is seen alone is.
const SEEN: [f64; 2] = [0.6, 1.4];

/// Up to three places of a row, and which of the large value (0), a lost one (1) and a seen one (2) each has.
type Row = [Option<(usize, usize)>; 3];

/// How often rows are drawn in which a place more would be seen.
const TRIES: u64 = 40;

/// So many of such rows tell a wider sum, which loses less: it would look alike in two of three of them.
const ENOUGH: usize = 6;

/// How many places are looked at, at most.
const PLACES: usize = 16;

/// What was found of such a sum.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Summed {
    /// Its significant bits.
    pub(super) bits: i32,
    /// The places that were looked at.
    pub(super) places: Vec<usize>,
    /// The order in which these are added; `None` where it is no tree's.
    pub(super) tree: Option<Tree>,
}

/// Rows in which a place more or less of the sum is seen.
struct Watched {
    /// The largest value of a row, which is where the sum's M is.
    large: f64,
    /// What is lost alone, and what is seen alone.
    small: [f64; 2],
    /// All other values, which are too small to count.
    others: Vec<f64>,
    /// Weights.
    weights: Vec<f64>,
    /// Where it is seen; none where it is at the large value itself.
    seen: Option<usize>,
    /// What is seen there of the sum alone, and of one that is a place larger.
    values: [f64; 2],
}

/// The order and the width of the sum in a norm, or in a softmax; `None` where what comes out tells nothing of its last places.
pub(super) fn summed(probed: &mut Probed<'_>) -> Result<Option<Summed>, Failure> {
    let places = places(probed.size);
    for bits in WIDTHS {
        let all = watched(probed, bits, &places)?;
        let mut is_lost = !all.is_empty();
        for watched in &all {
            let alone = watched.read(probed, &[[Some((places[0], 0)), Some((places[1], 1)), None]])?;
            is_lost &= alone[0] == watched.values[0];
        }
        // Where nothing is lost, the sum is wider.
        let Some(watched) = all.into_iter().next().filter(|_| is_lost) else { continue };
        let mut is_told = true;
        let tree = build(&places, &mut |pairs| {
            let (joined, told) = joined(probed, &watched, &places, pairs)?;
            is_told &= told;
            Ok(joined)
        })?;
        return Ok(Some(Summed { bits, places, tree: tree.filter(|_| is_told) }));
    }
    Ok(None)
}

/// Places on both sides of the powers of two, where lanes, vectors and blocks begin.
fn places(size: usize) -> Vec<usize> {
    let all = [0, 1, 7, 8, 9, 16, 64, 256, 257, 512, 1024, 2047, 2048, 2049, 2056];
    let mut places: Vec<usize> = all.into_iter().chain([size - 1]).filter(|&place| place < size).collect();
    places.sort_unstable();
    places.dedup();
    // Some are left for what is looked at.
    places.truncate(PLACES.min(size / 2));
    places
}

/// For pairs of places, how many of all are in the smallest sum that has both; and whether all that was seen was expected.
fn joined(
    probed: &mut Probed<'_>,
    watched: &Watched,
    places: &[usize],
    pairs: &[(usize, usize)],
) -> Result<(Vec<usize>, bool), Failure> {
    let others = |&(i, j): &(usize, usize)| {
        places.iter().filter(move |&&k| k != i && k != j).map(move |&k| [k, i, j]).collect::<Vec<_>>()
    };
    let all: Vec<[usize; 3]> = pairs.iter().flat_map(others).collect();
    let (first, told) = watched.merged(probed, &all)?;
    // Where all three are added at once, any two are seen; then none is added later.
    let again: Vec<[usize; 3]> =
        all.iter().zip(&first).filter(|(_, merged)| **merged).map(|(&[k, i, j], _)| [i, j, k]).collect();
    let (second, told_again) = watched.merged(probed, &again)?;
    let mut second = second.into_iter();
    let later: Vec<bool> = first.iter().map(|&merged| merged && !second.next().expect("one for each")).collect();
    let each = places.len() - 2;
    let count = |later: &[bool]| places.len() - later.iter().filter(|later| **later).count();
    let joined = if each == 0 { vec![places.len(); pairs.len()] } else { later.chunks(each).map(count).collect() };
    Ok((joined, told && told_again))
}

impl Watched {
    /// Of a sum with M at the first place, whether the terms at the others, which are lost alone, are seen together; and whether
    /// only the two values that are expected were.
    fn merged(&self, probed: &mut Probed<'_>, triples: &[[usize; 3]]) -> Result<(Vec<bool>, bool), Failure> {
        let rows: Vec<Row> = triples.iter().map(|&[k, i, j]| [Some((k, 0)), Some((i, 1)), Some((j, 1))]).collect();
        let seen = self.read(probed, &rows)?;
        let told = seen.iter().all(|seen| self.values.contains(seen));
        Ok((seen.into_iter().map(|seen| seen == self.values[1]).collect(), told))
    }

    /// What is seen of rows.
    fn read(&self, probed: &mut Probed<'_>, rows: &[Row]) -> Result<Vec<f64>, Failure> {
        let mut seen = Vec::with_capacity(rows.len());
        for rows in rows.chunks(ROWS) {
            let row = |row: &Row| {
                let mut values = self.others.clone();
                for &(place, which) in row.iter().flatten() {
                    values[place] = [self.large, self.small[0], self.small[1]][which];
                }
                values
            };
            let made = call(probed, &rows.iter().map(row).collect::<Vec<_>>(), &self.weights)?;
            let at =
                |(values, row): (&Vec<f64>, &Row)| values[self.seen.unwrap_or(row[0].map_or(0, |(place, _)| place))];
            seen.extend(made.iter().zip(rows).map(at));
        }
        Ok(seen)
    }
}

/// Rows in which a place more of a sum of such a width is seen.
fn watched(probed: &mut Probed<'_>, bits: i32, places: &[usize]) -> Result<Vec<Watched>, Failure> {
    match probed.kind {
        Kind::Softmax => Ok(of_softmax(probed, bits, places)?.into_iter().collect()),
        _ => of_norm(probed, bits, places),
    }
}

/// The sum is that of exp(x − max x): M is 1.
fn of_softmax(probed: &mut Probed<'_>, bits: i32, places: &[usize]) -> Result<Option<Watched>, Failure> {
    let storage = probed.storage;
    let last = 2.0_f64.powi(1 - bits);
    let of = |[low, high]: [f64; 2]| {
        let x = storage.nearest((last * (low * high).sqrt()).ln());
        let size = x.exp() / last;
        (low < size && size < high).then_some(x)
    };
    let Some(small) = of(LOST).zip(of(SEEN)) else { return Ok(None) };
    // Far below, but no subnormal number's exponential: for f64, which is seen to 2⁻⁵³, far enough, too.
    let others = vec![storage.nearest(-80.0); probed.size];
    let mut watched = Watched {
        large: 0.0,
        small: small.into(),
        others,
        weights: vec![1.0; probed.size],
        seen: None,
        values: [0.0; 2],
    };
    let rows = [[Some((places[0], 0)), None, None], [Some((places[0], 0)), Some((places[1], 2)), None]];
    let seen = watched.read(probed, &rows)?;
    watched.values = [seen[0], seen[1]];
    Ok((seen[0] != seen[1]).then_some(watched))
}

/// The sum is that of squares. A value x·r·w of another place shows r, and that the sum's last place, where it is rounded to
/// another side by it: such places are looked for among many.
fn of_norm(probed: &mut Probed<'_>, bits: i32, places: &[usize]) -> Result<Vec<Watched>, Failure> {
    let (storage, size) = (probed.storage, probed.size);
    let mut found = Vec::new();
    let Some(spare) = (0..size).find(|place| !places.contains(place)).filter(|_| storage != Storage::F16) else {
        return Ok(found);
    };
    for attempt in 0..TRIES {
        let mut draw = Draw::new(attempt);
        let mut others: Vec<f64> = (0..size).map(|_| draw.short(8, 2.0_f64.powi(-20))).collect();
        for &place in places {
            others[place] = 0.0;
        }
        let weights: Vec<f64> = (0..size).map(|_| draw.short(8, 1.0)).collect();
        let mut rows = Vec::with_capacity(ROWS / 2);
        while rows.len() < ROWS / 2 {
            // The sum of both squares has no more bits than the sum, and where only few are to be had, there are more sums so.
            let large = draw.short(bits_of(storage).min(bits / 2), 2.0_f64.powi(40));
            let spare = if bits == 24 { draw.short(8, 2.0_f64.powi(36)) } else { 0.0 };
            let Some(small) = smalls(storage, large, bits) else { return Ok(found) };
            rows.push((large, spare, small));
        }
        let row = |large: f64, own: f64, seen: f64| {
            let mut row = others.clone();
            (row[places[0]], row[places[1]], row[spare]) = (large, seen, own);
            row
        };
        let both = |&(large, own, [_, seen]): &(f64, f64, [f64; 2])| [row(large, own, 0.0), row(large, own, seen)];
        let made = call(probed, &rows.iter().flat_map(both).collect::<Vec<_>>(), &weights)?;
        for (&(large, own, small), made) in rows.iter().zip(made.chunks(2)) {
            let differs = |&place: &usize| made[0][place] != made[1][place];
            let shown = (0..size).filter(|&place| place != spare && !places.contains(&place));
            if let Some(seen) = shown.into_iter().find(differs) {
                let mut others = others.clone();
                others[spare] = own;
                let (weights, values) = (weights.clone(), [made[0][seen], made[1][seen]]);
                found.push(Watched { large, small, others, weights, seen: Some(seen), values });
            }
        }
        if found.len() >= ENOUGH {
            return Ok(found);
        }
    }
    found.clear();
    Ok(found)
}

/// Values whose squares are lost alone beside that of a large one, and seen alone.
fn smalls(storage: Storage, large: f64, bits: i32) -> Option<[f64; 2]> {
    let square = large * large;
    let last = 2.0_f64.powi(i32::try_from(square.to_bits() >> 52 & 0x7ff).ok()? - 1023 - bits + 1);
    let of = |[low, high]: [f64; 2]| {
        let value = storage.nearest((last * (low * high).sqrt()).sqrt());
        let size = value * value / last;
        (low < size && size < high).then_some(value)
    };
    Some([of(LOST)?, of(SEEN)?])
}

/// What the function makes of rows.
fn call(probed: &mut Probed<'_>, rows: &[Vec<f64>], weights: &[f64]) -> Result<Vec<Vec<f64>>, Failure> {
    let size = probed.size;
    let mut values = rows.concat();
    values.resize(ROWS * size, 1.0);
    let x = array(&[ROWS, size], values);
    let weights = array(&[size], weights.to_vec());
    let inputs = match probed.kind {
        Kind::Softmax => vec![x],
        Kind::AddNorm => vec![x.clone(), array(&[ROWS, size], vec![0.0; ROWS * size]), weights],
        _ => vec![x, weights],
    };
    let made = probed.call(&inputs, &[ROWS, size])?;
    Ok(made.outer_iter().take(rows.len()).map(|row| row.iter().copied().collect()).collect())
}
