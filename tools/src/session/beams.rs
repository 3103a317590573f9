//! Rows that change places between calls, as those of a beam search do: which row of the call before each goes on from is recovered
//! from values, for a dump does not say so.
//!
//! ```text
//! call 0    the prompt, in each row
//! call t    a token a row, behind what some row of call t − 1 has in its cache: the row whose keys give this row's values
//! ```
//!
//! Each row goes on from the row in its own place, unless its values are much nearer to what the keys of another give. Where any
//! does, tokens must be among the likeliest behind the rows that they go on from, by the logits that are shown or follow, as those
//! of a beam search are: else rows may be a search's that draws, or a cache's whose rows were mixed up, and nothing is said of them.

use fixtures::activations::rows::{Pass, Request};
use fixtures::names::at::At;
use fixtures::names::sited::Sited;
use ndarray::ArrayView1;
use reference::{LayerSite, RoundingContract, Semantics, Site};

use super::compared::compared;
use super::model::Model;
use super::prompt::Prompt;
use super::rows::RequestRows;
use crate::failure::Failure;
use crate::judge::comparison::Comparison;
use crate::judge::lens::Lens;
use crate::judge::rerun::Rerun;

/// How many times nearer another row has to be than the row in its own place.
const NEARER: f64 = 4.0;

/// Unit roundoffs of what activations are stored in that a row of a right candidate may be off by, at most, as a share of its size.
const ROUNDED: f64 = 2.0;

/// How many likely tokens a beam search looks at behind all rows together, for each of them.
const LOOKED_AT: usize = 2;

/// The share of its range by which a row's logits may be off.
const APART: f64 = 1.0 / 64.0;

/// Requests of a dump that may be beams.
pub(super) struct Beams<'a> {
    model: &'a Model,
    values: &'a Sited,
    semantics: Semantics,
    contract: RoundingContract,
    /// As each row goes on from the row in its own place.
    asked: &'a [RequestRows],
    /// The first site that tells what was attended to.
    at: Site,
}

impl<'a> Beams<'a> {
    /// Of requests that have one prompt and are read token by token behind it, where a site tells what each attends to.
    pub(super) fn of(
        (model, values): (&'a Model, &'a Sited),
        (semantics, contract): (Semantics, RoundingContract),
        asked: &'a [RequestRows],
    ) -> Option<Self> {
        let first = &asked.first()?.request;
        let has_one_prompt = asked.iter().all(|RequestRows { request, .. }| {
            let single = request.passes.iter().skip(1).all(|pass| pass.tokens.len() == 1);
            let same = |(one, other): (&Pass, &Pass)| (one.call, one.first) == (other.call, other.first);
            let is_alike =
                request.passes.len() == first.passes.len() && request.passes.iter().zip(&first.passes).all(same);
            single && is_alike && request.passes[0].tokens == first.passes[0].tokens && request.absent == 0
        });
        if asked.len() < 2 || first.passes.len() < 3 || !has_one_prompt {
            return None;
        }
        let (one, config) = (values.of(first.clone()), model.checkpoint.config());
        let tells = |site: &Site| match site {
            Site::Layer(_, of) => *of >= LayerSite::Context && !site.is_choice() && site.axes().len() == 2,
            Site::FinalNorm | Site::LmHead | Site::Logits => true,
            _ => false,
        };
        let is_shown = |site: &Site| (1..first.passes.len()).all(|step| one.has(At { step, site: *site }));
        let at = Site::all(config).filter(|site| tells(site) && is_shown(site)).min()?;
        Some(Beams { model, values, semantics, contract, asked, at })
    }

    /// The requests, each from the prompt to a row that none goes on from; `None` where each row goes on in its own place.
    pub(super) fn settled(&self) -> Result<Option<Vec<RequestRows>>, Failure> {
        let steps = self.asked[0].request.passes.len();
        let own: Vec<Vec<usize>> = (0..self.asked.len()).map(|row| vec![row; steps]).collect();
        let mut off = Vec::new();
        for path in &own {
            off.push(self.off(path)?);
        }
        // Behind the prompt all rows have the same keys.
        let least = ROUNDED * self.contract.activations.unit_roundoff();
        let limit = NEARER * off.iter().map(|of_row| of_row[0]).fold(least, f64::max);
        if off.iter().flatten().all(|off| *off <= limit) {
            return Ok(None);
        }
        let mut paths: Vec<Vec<usize>> = own.iter().map(|path| path[..2].to_vec()).collect();
        let mut all = vec![paths.clone()];
        for _ in 2..steps {
            paths = (0..self.asked.len()).map(|row| self.path_to(row, &paths, limit)).collect::<Result<_, _>>()?;
            all.push(paths.clone());
        }
        if paths == own {
            return Ok(None);
        }
        let all: Vec<Vec<usize>> = all.concat();
        let is_left = |path: &&Vec<usize>| !all.iter().any(|other| other.len() > path.len() && other.starts_with(path));
        let ends: Vec<Vec<usize>> = all.iter().filter(is_left).cloned().collect();
        self.require_likely(&ends)?;
        Ok(Some(ends.into_iter().enumerate().map(|(id, rows)| self.request(id, rows)).collect()))
    }

    /// The path to a row of the call behind those that these paths end in.
    fn path_to(&self, row: usize, before: &[Vec<usize>], limit: f64) -> Result<Vec<usize>, Failure> {
        let to = |path: &Vec<usize>| [&path[..], &[row]].concat();
        let own = to(&before[row]);
        let last = |path: &[usize]| Ok::<_, Failure>(self.off(path)?.last().copied().unwrap_or(f64::INFINITY));
        let of_own = last(&own)?;
        if of_own <= limit {
            return Ok(own);
        }
        let mut tried = vec![self.path(&before[row]).tokens()];
        let mut best = (of_own / NEARER, own);
        for path in before {
            let tokens = self.path(path).tokens();
            if tried.contains(&tokens) {
                continue;
            }
            tried.push(tokens);
            let other = to(path);
            let off = last(&other)?;
            if off < best.0 {
                best = (off, other);
            }
        }
        Ok(best.1)
    }

    /// A request with these rows of its calls.
    fn path(&self, rows: &[usize]) -> Request {
        let passes = rows.iter().enumerate().map(|(step, &row)| self.asked[row].request.passes[step].clone());
        Request { passes: passes.collect(), ..self.asked[rows[0]].request.clone() }
    }

    /// How far the candidate is behind the prompt, token by token, from what the keys of a path give, as a share of that.
    fn off(&self, rows: &[usize]) -> Result<Vec<f64>, Failure> {
        let rerun = self.rerun(rows, self.at, &[])?;
        let (computed, candidate) = (&rerun.computed, &rerun.candidate);
        let behind = rows.len() - 1;
        if computed.dim() != candidate.dim() || computed.nrows() < behind {
            return Ok(vec![0.0; behind]);
        }
        let norm = |row: ArrayView1<'_, f64>| row.iter().map(|x| x * x).sum::<f64>().sqrt();
        let of_row = |row: usize| {
            let (computed, candidate) = (computed.row(row), candidate.row(row));
            norm((&candidate - &computed).view()) / norm(computed).max(f64::MIN_POSITIVE)
        };
        Ok((computed.nrows() - behind..computed.nrows()).map(of_row).collect())
    }

    /// The reference from the candidate's own inputs, along a path.
    fn rerun(&self, rows: &[usize], at: Site, wanted: &[Site]) -> Result<Rerun, Failure> {
        let request = self.path(rows);
        let (steps, values) = (request.steps(), self.values.of(request));
        let compared = compared((self.model, self.semantics), &values, (&steps, steps[0].len()), None);
        let comparison = Comparison::new(compared, self.contract);
        let model = comparison.model()?;
        let layers = at.layer().map_or(model.config().num_hidden_layers, |layer| layer + 1);
        comparison.verification(&model, &[Lens::Local], 0..layers).rerun(self.contract, at, wanted)
    }

    /// Demands that each token is among the likeliest behind the row that it goes on from.
    fn require_likely(&self, paths: &[Vec<usize>]) -> Result<(), Failure> {
        let (likely, first) = (LOOKED_AT * self.asked.len(), &self.asked[0].request);
        let one = self.values.of(first.clone());
        let is_shown = |site: &Site| (1..first.passes.len()).all(|step| one.has(At { step, site: *site }));
        // Before the head, its logits follow.
        let Some(head) = [Site::LmHead, Site::Logits, Site::FinalNorm].into_iter().find(is_shown) else {
            let moves = |path: &&Vec<usize>| path[1..].windows(2).any(|pair| pair[0] != pair[1]);
            let moved = paths.iter().find(moves).unwrap_or(&paths[0]);
            return Err(unlike(moved, "neither logits nor the last norm's output say whether these are likely"));
        };
        for rows in paths {
            let beside = self.rerun(rows, head, &[Site::LmHead])?.beside;
            let Some(logits) = beside.get(&Site::LmHead) else { continue };
            let tokens: Vec<u32> = self.path(rows).passes[1..].iter().map(|pass| pass.tokens[0]).collect();
            // Of the prompt, the last row alone may be shown, or none.
            for (token, row) in tokens.iter().rev().zip(logits.rows().into_iter().rev().skip(1)) {
                let [low, high] = [f64::min, f64::max].map(|of| row.iter().copied().fold(row[0], of));
                let own = row.get(*token as usize).copied().unwrap_or(low) + APART * (high - low);
                if row.iter().filter(|z| **z > own).count() >= likely {
                    return Err(unlike(rows, "their tokens are not the likeliest behind these"));
                }
            }
        }
        Ok(())
    }

    /// The request with these rows.
    fn request(&self, id: usize, rows: Vec<usize>) -> RequestRows {
        let tokens = self.asked[rows[0]].request.passes[0].tokens.clone();
        let RequestRows { embedded, likeliest, unread, padding, filled, .. } = self.asked[rows[0]];
        let request = Request { id, ..self.path(&rows) };
        RequestRows {
            request,
            prompt: Prompt { tokens, decoded: Vec::new() },
            embedded,
            likeliest,
            unread,
            padding,
            filled,
            beam: Some(rows),
        }
    }
}

fn unlike(rows: &[usize], because: &str) -> Failure {
    let rows: Vec<String> = rows.iter().map(usize::to_string).collect();
    let problem = format!(
        "rows of the dump's calls go on from other rows' keys, as rows {} of calls 0 to {}, and {because}: they may be a beam \
         search's that draws, or a cache's whose rows were mixed up",
        rows.join(", "),
        rows.len() - 1
    );
    Failure::new(problem)
        .help("dump with num_beams=1, or one request alone: only then each row is known to go on in its place")
}
