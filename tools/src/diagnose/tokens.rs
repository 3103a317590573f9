//! Whether a candidate was made from the tokens that are given: its embedding tells.

use fixtures::names::at::At;
use ndarray::Array2;
use reference::Site;
use reference::matrix::Matrix;
use reference::site::Extent;
use reference::weights::{Weight, Weights};

use crate::failure::Failure;
use crate::judge::comparison::Comparison;

impl Comparison<'_> {
    /// Demands that the embeddings which the candidate shows are those of the given tokens, unless they are no token's.
    pub fn require_tokens(&self) -> Result<(), Failure> {
        match self.other_tokens()? {
            Some(other) => {
                Err(Failure::new(format!("tokens differ {other}")).help("give the tokens that the dump was made from"))
            }
            None => Ok(()),
        }
    }

    /// From where on the embeddings that the candidate shows are those of other tokens, in words.
    pub(crate) fn other_tokens(&self) -> Result<Option<String>, Failure> {
        let table = self.weights.get(Weight::Embedding).map_err(reference::Error::from)?;
        let mut first = 0;
        for (step, tokens) in self.compared.steps.iter().enumerate() {
            let at = At { step, site: Site::Embedding };
            let extent = Extent::new(tokens.len(), first + tokens.len());
            if self.compared.candidate.has(at) && self.compared.candidate.shown(at, extent)?.is_none() {
                let shown = self.compared.candidate.matrix(at, extent)?;
                if let Some(other) = self.other_rows(&table, tokens, &shown, first) {
                    return Ok(Some(other));
                }
            }
            first += tokens.len();
        }
        Ok(None)
    }

    /// The same of a call's rows.
    fn other_rows(&self, table: &Matrix<'_>, tokens: &[u32], shown: &Array2<f64>, first: usize) -> Option<String> {
        let mut row = vec![0.0; table.dim().1];
        let mut is = |token: usize, i: usize| {
            let is_token = token < table.dim().0;
            if is_token {
                table.row_into(token, &mut row);
            }
            is_token && row.iter().zip(shown.row(i)).all(|(x, shown)| self.contract.shown().nearest(*x) == *shown)
        };
        let (own, off): (Vec<usize>, Vec<usize>) = (0..tokens.len()).partition(|&i| is(tokens[i] as usize, i));
        // No token's embedding: the embedding is at fault, not the prompt.
        let &i = off.first()?;
        let other = (0..table.dim().0).find(|&token| is(token, i))?;
        let ahead = i64::try_from(other).ok()? - i64::from(tokens[i]);
        let pattern = if (1..tokens.len()).all(|i| is(tokens[i - 1] as usize, i)) {
            "; the candidate's are shifted by one".to_owned()
        } else {
            moved(tokens, (&own, &off), ahead, is).map(|moved| format!("; {moved}")).unwrap_or_default()
        };
        let (position, given) = (first + i, tokens[i]);
        Some(format!(
            "from position {position}: given {given}, and the candidate's embedding is that of {other}{pattern}"
        ))
    }
}

/// That all rows that are `off` are those of a token so many ids ahead of theirs, in words, where there are several and that `is` so.
pub(super) fn moved(
    tokens: &[u32],
    (own, off): (&[usize], &[usize]),
    ahead: i64,
    mut is: impl FnMut(usize, usize) -> bool,
) -> Option<String> {
    let is_moved = |&i: &usize| usize::try_from(i64::from(tokens[i]) + ahead).is_ok_and(|token| is(token, i));
    if off.len() < 2 || !off.iter().all(is_moved) {
        return None;
    }
    let least = off.iter().map(|&i| tokens[i]).min().filter(|least| own.iter().all(|&i| tokens[i] < *least));
    let from = least.filter(|_| !own.is_empty()).map(|least| format!(", all tokens from {least} on"));
    Some(format!("{} rows are those of the token {ahead:+} from theirs{}", off.len(), from.unwrap_or_default()))
}
