//! Whose choice a token has, where it is not its own: that of another token, of earlier [`calls`], or of another layer, or experts of
//! other numbers; what is [`barred`] from it, or by what [`scores`] it was made.
//!
//! A hypothesis is a rule that says of every row which choice it has. It is told where it holds of next to all rows that are off,
//! and of next to all others too, of which rounding may have made some otherwise. Of a mistake that explains a choice, the same is
//! asked of half of those that are off.

mod barred;
mod calls;
mod local;
pub(in crate::diagnose) mod scores;

use std::fmt;

use fixtures::names::at::At;
use reference::{LayerSite, RoundingContract, Site};

use self::barred::{FEWEST, Set, TIES, sets};
use self::calls::Of;
use super::catalogue::assumption::Assumption;
use crate::failure::Failure;
use crate::judge::comparison::Comparison;
use crate::judge::rechosen::Rechosen;
use crate::report::figures;

/// Tokens of a tile.
const TILES: [usize; 7] = [2, 4, 8, 16, 32, 64, 128];

/// Whose choice.
#[derive(Debug, Clone, Copy)]
enum Whose {
    Before,
    Behind,
    FirstOf(usize),
    LastOf(usize),
    Chooser(usize),
    Layer(usize),
    /// Its own experts, each by so many numbers further, of so many.
    Numbered(usize, usize),
}

/// What is said of a choice at fault.
pub(super) fn describe(
    comparison: &Comparison<'_>,
    assumption: &Assumption,
    at: At,
) -> Result<Option<String>, Failure> {
    let Site::Layer(layer, kind @ (LayerSite::Blocks | LayerSite::GateExperts)) = at.site else { return Ok(None) };
    let passes = comparison.under(assumption, comparison.around(at.site), |verification| {
        verification.rechosen(RoundingContract::IDEAL, at.site)
    })?;
    let begins = |step: usize| comparison.compared.steps[..step].iter().map(Vec::len).sum::<usize>();
    let experts = comparison.compared.config.num_local_experts;
    let index = assumption.config(comparison.compared.config, layer).index;
    let size = index.map(|index| index.blocks.size).filter(|_| kind == LayerSite::Blocks);
    if let Some(said) = calls::told(&passes, begins, size.map_or(Of::Experts(experts), Of::Blocks)) {
        return Ok(Some(said));
    }
    let Some(pass) = passes.into_iter().find(|pass| pass.step == at.step) else { return Ok(None) };
    if kind == LayerSite::Blocks
        && let Some(said) = of_fewer(&pass)
    {
        return Ok(Some(said));
    }
    let mut rules: Vec<(Whose, Vec<Set>)> = within(&pass);
    for other in (0..comparison.compared.config.num_hidden_layers).filter(|other| *other != layer) {
        let candidate = comparison.compared.candidate;
        let of_other = At { site: Site::Layer(other, kind), ..at };
        if candidate.has(of_other) {
            rules.push((Whose::Layer(other), sets(&candidate.choices(of_other, comparison.extent(at.step))?)));
        }
    }
    if kind == LayerSite::GateExperts {
        rules.extend(numbered(&pass, experts));
    }
    if let Some(said) = told(&pass, &rules) {
        return Ok(Some(said));
    }
    if kind == LayerSite::GateExperts
        && let Some(said) = scores::describe((comparison, assumption), at, &pass)?
    {
        return Ok(Some(said));
    }
    let before = begins(at.step);
    if kind == LayerSite::Blocks
        && let Some(said) = local::describe((comparison, assumption), at, &pass, before)?
    {
        return Ok(Some(said));
    }
    Ok(of_barred(&pass, before, size, experts))
}

impl Comparison<'_> {
    /// Whether half of the choices at a site that are other ones before are the candidate's under an assumption: what leaves scores so
    /// unsure that any choice may be right explains none.
    pub(super) fn rechooses(&self, assumptions: [&Assumption; 2], site: Site) -> Result<bool, Failure> {
        let same = |assumption: &Assumption| -> Result<Vec<bool>, Failure> {
            let passes = self.under(assumption, self.around(site), |all| all.rechosen(self.contract, site))?;
            let of_pass = |pass: &Rechosen| sets(&pass.own).into_iter().zip(sets(&pass.candidate));
            Ok(passes.iter().flat_map(of_pass).map(|(own, candidate)| own == candidate).collect())
        };
        let (was, is) = (same(assumptions[0])?, same(assumptions[1])?);
        let off = was.iter().filter(|same| !**same).count();
        let mended = was.iter().zip(&is).filter(|(was, is)| !**was && **is).count();
        Ok(2 * mended >= off)
    }
}

/// Rules by which experts are counted from another number on.
fn numbered(pass: &Rechosen, experts: usize) -> Vec<(Whose, Vec<Set>)> {
    let own = sets(&pass.own);
    let of = |by: usize| own.iter().map(|set| set.iter().map(|expert| (expert + by) % experts).collect()).collect();
    (1..experts).map(|by| (Whose::Numbered(by, experts), of(by))).collect()
}

/// What is never chosen, or always: blocks of so many keys in a call behind so many tokens, or experts.
fn of_barred(pass: &Rechosen, before: usize, size: Option<usize>, experts: usize) -> Option<String> {
    let (own, candidate) = (sets(&pass.own), sets(&pass.candidate));
    let pairs = own.iter().zip(&candidate).enumerate();
    let choice = |(row, (own, candidate))| {
        let position = before + row % pass.tokens.max(1);
        let forced = size.map(|size| position / size.max(1));
        barred::Choice { own, candidate, forced, visible: forced.map_or(experts, |forced| forced + 1) }
    };
    let choices: Vec<barred::Choice<'_>> = pairs.map(choice).collect();
    barred::told(&choices, if size.is_some() { "block" } else { "expert" })
}

/// Index heads that choose fewer blocks than they should, and all of these among the right ones.
fn of_fewer(pass: &Rechosen) -> Option<String> {
    let (own, candidate, tokens) = (sets(&pass.own), sets(&pass.candidate), pass.tokens.max(1));
    let (choosers, most) = (own.len() / tokens, own.iter().map(Set::len).max()?);
    let off: Vec<usize> = (0..own.len()).filter(|row| own[*row] != candidate[*row]).collect();
    let fewer = candidate[*off.first()?].len();
    let mut which: Vec<usize> = off.iter().map(|row| row / tokens).collect();
    which.dedup();
    let is_less = |row: &usize| candidate[*row].len() == fewer && candidate[*row].is_subset(&own[*row]);
    let is_whole = |row: usize| own[row].len() <= fewer || own[row] != candidate[row];
    let all = which.iter().flat_map(|chooser| chooser * tokens..(chooser + 1) * tokens);
    if off.len() < FEWEST || fewer >= most || !off.iter().all(is_less) || !all.into_iter().all(is_whole) {
        return None;
    }
    let who =
        if which.len() == choosers { "each index head".to_owned() } else { figures::numbered("index head", &which) };
    Some(format!("of {who} no more than {fewer} blocks are chosen, where {most} are right"))
}

/// Rules by which a token has the choice of another, or of another chooser.
fn within(pass: &Rechosen) -> Vec<(Whose, Vec<Set>)> {
    let (own, tokens) = (sets(&pass.own), pass.tokens.max(1));
    let choosers = own.len() / tokens;
    let tiles = TILES.into_iter().filter(|tile| *tile < 2 * tokens);
    let all = [Whose::Before, Whose::Behind]
        .into_iter()
        .chain(tiles.flat_map(|tile| [Whose::FirstOf(tile), Whose::LastOf(tile)]))
        .chain((0..choosers).filter(|_| choosers > 1).map(Whose::Chooser));
    let of = |whose: Whose| {
        let row = |row: usize| {
            let (chooser, token) = (row / tokens, row % tokens);
            let (chooser, token) = match whose {
                Whose::Before => (chooser, token.saturating_sub(1)),
                Whose::Behind => (chooser, (token + 1).min(tokens - 1)),
                Whose::FirstOf(tile) => (chooser, token / tile * tile),
                Whose::LastOf(tile) => (chooser, (token / tile * tile + tile - 1).min(tokens - 1)),
                Whose::Chooser(other) => (other, token),
                Whose::Layer(_) | Whose::Numbered(..) => (chooser, token),
            };
            own[chooser * tokens + token].clone()
        };
        (whose, (0..own.len()).map(row).collect())
    };
    all.map(of).collect()
}

/// The rule that most rows follow, if next to all do.
fn told(pass: &Rechosen, rules: &[(Whose, Vec<Set>)]) -> Option<String> {
    let (own, candidate) = (sets(&pass.own), sets(&pass.candidate));
    let off: Vec<usize> = (0..own.len()).filter(|row| own[*row] != candidate[*row]).collect();
    let holds = |rule: &[Set], row: usize| rule.get(row) == Some(&candidate[row]);
    let follow = |rule: &[Set]| off.iter().filter(|row| holds(rule, **row)).count();
    let (whose, rule) = rules.iter().max_by_key(|(_, rule)| follow(rule))?;
    let (count, against) = (follow(rule), (0..own.len()).filter(|row| !holds(rule, *row)).count());
    let is_rule = off.len() >= FEWEST && TIES * (off.len() - count) <= off.len() && TIES * against <= own.len();
    is_rule.then(|| format!("each token has {whose}: {count} of {} choices that are off", off.len()))
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whose::Before => write!(f, "the choice of the token before"),
            Whose::Behind => write!(f, "the choice of the next token"),
            Whose::FirstOf(tile) => write!(f, "the choice of the first of its tile of {tile}"),
            Whose::LastOf(tile) => write!(f, "the choice of the last of its tile of {tile}"),
            Whose::Chooser(chooser) => write!(f, "the choice of index head {chooser}"),
            Whose::Layer(layer) => write!(f, "the choice that is shown of layer {layer}"),
            Whose::Numbered(by, experts) => write!(f, "expert (e + {by}) mod {experts} in the place of expert e"),
        }
    }
}
