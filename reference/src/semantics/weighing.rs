//! Keys that attention does not see, or sees beside its own, how what splits of them give is put together, and where a head's
//! values go.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use strum::{Display, EnumIter, EnumString, VariantNames};

/// Keys that a token does not see; its own is seen, but where all from one on are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unseen {
    /// From one to before another: `keys:8..12`.
    Keys(usize, usize),
    /// From one on, the token's own, too: `from:128`.
    From(usize),
    /// From so many before the token to before so many: `before:1..4`, the three that are nearest.
    Before(usize, usize),
    /// The last so many of the calls before: `seam:2`.
    Seam(usize),
    /// All of the calls before: `context`.
    Context,
    /// Those of a prompt of so many tokens, which the calls after it do not see: `prompt:24`.
    Prompt(usize),
    /// One at a place in each tile of so many: `each:16/15`, the last of each.
    Each(usize, usize),
}

impl Unseen {
    /// The runs of keys that the token at a position does not see, in a call that begins at `first`.
    pub fn runs(self, position: usize, first: usize) -> Vec<Range<usize>> {
        let run = match self {
            Unseen::Keys(from, to) => from..to,
            Unseen::From(from) => return (from > 0).then_some(from..usize::MAX).into_iter().collect(),
            Unseen::Before(from, to) => (position + 1).saturating_sub(to)..(position + 1).saturating_sub(from),
            Unseen::Seam(count) => first.saturating_sub(count)..first,
            Unseen::Context => 0..first,
            Unseen::Prompt(tokens) => 0..if first >= tokens { tokens } else { 0 },
            Unseen::Each(size, at) => {
                let keys = (at..position).step_by(size.max(1));
                return keys.map(|key| key..key + 1).collect();
            }
        };
        let parts = [run.start..run.end.min(position), run.start.max(position + 1)..run.end];
        parts.into_iter().filter(|part| !part.is_empty()).collect()
    }
}

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unseen::Keys(from, to) => write!(f, "keys:{from}..{to}"),
            Unseen::From(from) => write!(f, "from:{from}"),
            Unseen::Before(from, to) => write!(f, "before:{from}..{to}"),
            Unseen::Seam(count) => write!(f, "seam:{count}"),
            Unseen::Context => f.write_str("context"),
            Unseen::Prompt(tokens) => write!(f, "prompt:{tokens}"),
            Unseen::Each(size, at) => write!(f, "each:{size}/{at}"),
        }
    }
}

impl FromStr for Unseen {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        if s == "context" {
            return Ok(Unseen::Context);
        }
        let expected = "expected context, keys: or before: and two numbers with .. in between, from:, seam: or prompt: and one, \
                        or each: and two with /";
        let (what, numbers) = s.split_once(':').ok_or(expected)?;
        let two = |by: &str| numbers.split_once(by).map(|(a, b)| [a, b]).ok_or(expected);
        let both = |of: [&str; 2]| Ok::<_, String>((number(of[0])?, number(of[1])?));
        match what {
            "keys" => both(two("..")?).map(|(from, to)| Unseen::Keys(from, to)),
            "from" => number(numbers).map(Unseen::From),
            "before" => both(two("..")?).map(|(from, to)| Unseen::Before(from, to)),
            "seam" => number(numbers).map(Unseen::Seam),
            "prompt" => number(numbers).map(Unseen::Prompt),
            "each" => both(two("/")?).map(|(size, at)| Unseen::Each(size, at)),
            _ => Err(expected.to_owned()),
        }
    }
}

/// Keys and values of zeros that every token of a call sees beside its own: their score is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Zeros {
    /// So many: `count:3`.
    Count(usize),
    /// As many as fill the last tile of so many keys: `tile:16`.
    Tile(usize),
    /// As many as a cache of so many slots has left: `slots:64`.
    Slots(usize),
}

impl Zeros {
    /// How many there are beside so many keys.
    pub fn of(self, keys: usize) -> usize {
        match self {
            Zeros::Count(count) => count,
            Zeros::Tile(size) => keys.next_multiple_of(size.max(1)) - keys,
            Zeros::Slots(slots) => slots.saturating_sub(keys),
        }
    }
}

impl fmt::Display for Zeros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Zeros::Count(count) => write!(f, "count:{count}"),
            Zeros::Tile(size) => write!(f, "tile:{size}"),
            Zeros::Slots(slots) => write!(f, "slots:{slots}"),
        }
    }
}

impl FromStr for Zeros {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let expected = "expected count:, tile: or slots: and a number";
        let (what, of) = s.split_once(':').ok_or(expected)?;
        match what {
            "count" => number(of).map(Zeros::Count),
            "tile" => number(of).map(Zeros::Tile),
            "slots" => number(of).map(Zeros::Slots),
            _ => Err(expected.to_owned()),
        }
    }
}

/// How what splits give is put together: `averaged/16`, of so many keys each, or `averaged/x2`, of so many in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Merged {
    /// The way.
    pub by: Merge,
    /// How keys are split.
    pub split: Split,
}

/// How keys are split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Split {
    /// So many in each.
    Keys(usize),
    /// Into so many parts, of as many keys each as there are for the largest.
    Parts(usize),
}

impl Split {
    /// How many of so many keys each has.
    pub(crate) fn size(self, keys: usize) -> usize {
        match self {
            Split::Keys(size) => size.max(1),
            Split::Parts(count) => keys.div_ceil(count.max(1)).max(1),
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Split::Keys(size) => size.fmt(f),
            Split::Parts(count) => write!(f, "x{count}"),
        }
    }
}

/// The way to put splits together, of which each has a largest score, a sum of exponentials beside it, and a sum of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Display, EnumIter, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub enum Merge {
    /// Both sums are added as they are, each beside its own largest score.
    Own,
    /// The splits' means count alike.
    Averaged,
    /// The splits' means count by their largest scores, without their sums.
    Unsummed,
    /// Split follows split: the sum of values is not scaled again where a larger score comes.
    ValuesKept,
    /// The same of the sum of exponentials.
    WeightsKept,
    /// The same of both.
    BothKept,
}

impl fmt::Display for Merged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.by, self.split)
    }
}

impl FromStr for Merged {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let expected = || format!("expected {}, a /, and a number or x and one", Merge::VARIANTS.join(" or "));
        let (by, size) = s.split_once('/').ok_or_else(expected)?;
        let split = match size.strip_prefix('x') {
            Some(count) => Split::Parts(number(count)?),
            None => Split::Keys(number(size)?),
        };
        Ok(Merged { by: by.parse().map_err(|_| expected())?, split })
    }
}

/// A head of attention's context that holds another's: `3=2`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SharedHead {
    /// The head.
    pub head: usize,
    /// The one whose values it holds.
    pub of: usize,
}

impl SharedHead {
    /// The column that is in the place of another, of heads of d columns, of which there are so many in all.
    pub(crate) fn source(self, column: usize, d: usize, columns: usize) -> usize {
        let source = self.of * d + column % d;
        if column / d == self.head && source < columns { source } else { column }
    }
}

impl fmt::Display for SharedHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.head, self.of)
    }
}

impl FromStr for SharedHead {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let (head, of) = s.split_once('=').ok_or("expected two heads with a = in between")?;
        Ok(SharedHead { head: number(head)?, of: number(of)? })
    }
}

fn number(s: &str) -> Result<usize, String> {
    s.parse().map_err(|error: std::num::ParseIntError| error.to_string())
}
