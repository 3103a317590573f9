//! An order of additions, as a tree: what is added at once is a node, what is added are its children.

use std::collections::BTreeMap;
use std::fmt;

use reference::contract::{Lanes, WARP};

use crate::failure::Failure;

/// A term, by its index, or a sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tree {
    /// A term.
    Term(usize),
    /// What is added at once: two, or in fused steps more.
    Sum(Vec<Tree>),
}

/// Pairs of terms of which it is asked, at most.
const MOST_PAIRS: usize = 200_000;

/// For pairs of terms, how many are in the smallest sum that has both.
type Joined<'j> = dyn FnMut(&[(usize, usize)]) -> Result<Vec<usize>, Failure> + 'j;

/// Terms among which one is the first, and for each number of terms that it was joined by, those that joined it then.
struct Part {
    terms: Vec<usize>,
    joining: Vec<(usize, usize)>,
}

/// The order in which `terms` are added, where `joined` gives for pairs of them how many of `terms` are in the smallest sum that
/// has both. An error where these numbers are not a tree's.
pub(super) fn build(terms: &[usize], joined: &mut Joined<'_>) -> Result<Option<Tree>, Failure> {
    let mut parts = vec![Part { terms: terms.to_vec(), joining: Vec::new() }];
    let (mut next, mut asked) = (0, 0);
    // Parts of one round are independent, so that their pairs go into the same calls.
    while next < parts.len() {
        let round = next..parts.len();
        let of = |part: &Part| part.terms[1..].iter().map(|&other| (part.terms[0], other)).collect::<Vec<_>>();
        let pairs: Vec<(usize, usize)> = parts[round.clone()].iter().flat_map(of).collect();
        asked += pairs.len();
        if asked > MOST_PAIRS {
            return Ok(None);
        }
        let mut sizes = joined(&pairs)?.into_iter();
        for part in round.clone() {
            let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            for &other in &parts[part].terms[1..] {
                groups.entry(sizes.next().expect("one for each pair")).or_default().push(other);
            }
            for (size, group) in groups {
                let index = parts.len();
                parts[part].joining.push((size, index));
                parts.push(Part { terms: group, joining: Vec::new() });
            }
        }
        next = round.end;
    }
    Ok(assembled(&parts, 0, terms.len() + 1))
}

/// The tree of a part, all of which joins something to a sum of so many terms.
fn assembled(parts: &[Part], part: usize, outer: usize) -> Option<Tree> {
    let Part { terms, joining } = &parts[part];
    let mut tree = Tree::Term(terms[0]);
    let mut count = 1;
    for &(size, joins) in joining {
        let other = assembled(parts, joins, size)?;
        count += other.count();
        // A part that is joined by the outer sum itself is several of that sum's children.
        let is_several = parts[joins].joining.last().is_some_and(|(own, _)| *own == size);
        let mut children = vec![tree];
        match other {
            Tree::Sum(siblings) if is_several => children.extend(siblings),
            other => children.push(other),
        }
        tree = Tree::Sum(children);
        if size != outer && size != count || size > outer {
            return None;
        }
    }
    Some(tree)
}

impl Tree {
    /// The order of lanes: those of a warp are added in pairs, halves first, and the warps upward.
    pub fn of_lanes(lanes: Lanes, terms: usize) -> Option<Self> {
        let lane = |own: usize| {
            let own = (0..terms).filter(|i| i / lanes.vector % lanes.count == own);
            Tree::one_by_one(own.map(Tree::Term))
        };
        let all: Vec<Option<Tree>> = (0..lanes.count).map(lane).collect();
        Tree::one_by_one(all.chunks(WARP).filter_map(in_halves))
    }

    /// One added to the sum of those before.
    pub fn one_by_one(trees: impl IntoIterator<Item = Tree>) -> Option<Self> {
        trees.into_iter().reduce(|sum, tree| Tree::Sum(vec![sum, tree]))
    }

    /// The terms, from the left.
    pub fn terms(&self) -> Vec<usize> {
        match self {
            Tree::Term(term) => vec![*term],
            Tree::Sum(parts) => parts.iter().flat_map(Tree::terms).collect(),
        }
    }

    /// How many additions the term goes through that goes through most.
    pub fn depth(&self) -> usize {
        match self {
            Tree::Term(_) => 0,
            Tree::Sum(parts) => 1 + parts.iter().map(Tree::depth).max().unwrap_or(0),
        }
    }

    /// The order in which some of the terms are added, where the others are zero.
    #[must_use]
    pub fn among(&self, terms: &[usize]) -> Option<Self> {
        match self {
            Tree::Term(term) => terms.contains(term).then_some(Tree::Term(*term)),
            Tree::Sum(parts) => {
                let mut parts: Vec<Tree> = parts.iter().filter_map(|part| part.among(terms)).collect();
                if parts.len() < 2 { parts.pop() } else { Some(Tree::Sum(parts)) }
            }
        }
    }

    /// The same order with the parts of each sum by their first terms, since additions commute.
    #[must_use]
    pub fn sorted(&self) -> Self {
        match self {
            Tree::Term(term) => Tree::Term(*term),
            Tree::Sum(parts) => {
                let mut parts: Vec<Tree> = parts.iter().map(Tree::sorted).collect();
                parts.sort_by_key(|part| part.terms().into_iter().min());
                Tree::Sum(parts)
            }
        }
    }

    /// A term that goes through most additions, and for each of these, from the first, one that is added there.
    pub(super) fn path(&self) -> Vec<usize> {
        let Tree::Sum(parts) = self else { return self.terms() };
        let (deepest, part) = parts.iter().enumerate().max_by_key(|(_, part)| part.depth()).expect("it has parts");
        let mut path = part.path();
        let other = &parts[usize::from(deepest == 0)];
        path.push(other.terms()[0]);
        path
    }

    /// Three terms that are added at once, where there are such.
    pub(super) fn at_once(&self) -> Option<[usize; 3]> {
        let Tree::Sum(parts) = self else { return None };
        let own: Vec<usize> = parts.iter().filter_map(Tree::term).take(3).collect();
        own.try_into().ok().or_else(|| parts.iter().find_map(Tree::at_once))
    }

    /// Whether more than two are added at once somewhere.
    pub fn is_fused(&self) -> bool {
        match self {
            Tree::Term(_) => false,
            Tree::Sum(parts) => parts.len() > 2 || parts.iter().any(Tree::is_fused),
        }
    }

    /// The width of fused steps, each of which adds as many terms to the sum of those before, but the last of a chain, which may add
    /// fewer; and how many terms a chain has, where there are several, added one after another. `None` where it is otherwise, or
    /// one step has all terms, so that nobody knows how many it would take.
    pub fn fused_steps(&self) -> Option<(usize, Option<usize>)> {
        if let Some((width, terms)) = self.chain() {
            return (width < terms).then_some((width, None));
        }
        let Tree::Sum(parts) = self else { return None };
        let [before, last] = &parts[..] else { return None };
        let (width, block) = match before.chain() {
            Some((width, terms)) => (width, terms),
            None => before.fused_steps().and_then(|(width, block)| Some((width, block?)))?,
        };
        let (own, terms) = last.chain()?;
        (own <= width && terms <= block && before.count() % block == 0).then_some((width, Some(block)))
    }

    /// The width of the steps of one chain, and how many terms it has.
    fn chain(&self) -> Option<(usize, usize)> {
        let Tree::Sum(parts) = self else { return None };
        let mut sums = parts.iter().filter(|part| part.term().is_none());
        match (sums.next(), sums.next()) {
            (None, _) => Some((parts.len(), parts.len())),
            (Some(before), None) => {
                let ((width, terms), own) = (before.chain()?, parts.len() - 1);
                let is_full = terms % width == 0;
                (is_full && own <= width).then_some((width, terms + own))
            }
            _ => None,
        }
    }

    /// How many terms it has.
    pub(super) fn count(&self) -> usize {
        match self {
            Tree::Term(_) => 1,
            Tree::Sum(parts) => parts.iter().map(Tree::count).sum(),
        }
    }

    /// The term that this is, if it is one.
    pub(super) fn term(&self) -> Option<usize> {
        match self {
            Tree::Term(term) => Some(*term),
            Tree::Sum(_) => None,
        }
    }

    /// The value of the sum, where `add` adds what is added at once, and is told whether a term is among it.
    pub(super) fn sum(&self, terms: &[f64], add: &dyn Fn(&[f64], bool) -> f64) -> f64 {
        match self {
            Tree::Term(term) => terms[*term],
            Tree::Sum(parts) => {
                let values: Vec<f64> = parts.iter().map(|part| part.sum(terms, add)).collect();
                add(&values, parts.iter().any(|part| part.term().is_some()))
            }
        }
    }
}

/// The sum of a warp's lanes, of which the last may have no terms: the second half is added to the first until one is left.
fn in_halves(lanes: &[Option<Tree>]) -> Option<Tree> {
    let mut lanes = lanes.to_vec();
    while lanes.len() > 1 {
        let high = lanes.split_off(lanes.len() / 2);
        let pairs = lanes.into_iter().zip(high);
        lanes = pairs.map(|(low, high)| Tree::one_by_one(low.into_iter().chain(high))).collect();
    }
    lanes.pop().flatten()
}

/// Nested sums, `((0+1)+2)`.
impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tree::Term(term) => write!(f, "{term}"),
            Tree::Sum(parts) => {
                f.write_str("(")?;
                for (i, part) in parts.iter().enumerate() {
                    f.write_str(if i == 0 { "" } else { "+" })?;
                    part.fmt(f)?;
                }
                f.write_str(")")
            }
        }
    }
}
