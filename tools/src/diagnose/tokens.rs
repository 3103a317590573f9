//! Whether a candidate was made from the tokens that are given: its embedding tells.

use std::collections::BTreeSet;

use fixtures::names::at::At;
use ndarray::{Array2, ArrayView1};
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

    fn other_rows(&self, table: &Matrix<'_>, tokens: &[u32], shown: &Array2<f64>, first: usize) -> Option<String> {
        let is = |token: usize, shown: ArrayView1<'_, f64>| {
            let mut row = vec![0.0; table.dim().1];
            table.row_into(token, &mut row);
            row.iter().zip(shown).all(|(x, shown)| self.contract.shown().nearest(*x) == *shown)
        };
        let others: Vec<usize> = (0..tokens.len()).filter(|&i| !is(tokens[i] as usize, shown.row(i))).collect();
        // No token's embedding: the embedding is at fault, not the prompt.
        let (&i, vocabulary) = (others.first()?, table.dim().0);
        let other = (0..vocabulary).find(|&token| is(token, shown.row(i)))?;
        let (position, given) = (first + i, tokens[i]);
        let ahead = i64::try_from(other).ok()? - i64::from(given);
        let is_ahead = |i: usize| {
            let token = usize::try_from(i64::from(tokens[i]) + ahead).ok().filter(|token| *token < vocabulary);
            token.is_some_and(|token| is(token, shown.row(i)))
        };
        let pattern = if (1..tokens.len()).all(|i| is(tokens[i - 1] as usize, shown.row(i))) {
            "; the candidate's are shifted by one".to_owned()
        } else if others.len() > 1 && others.iter().copied().all(is_ahead) {
            let (off, right): (Vec<usize>, Vec<usize>) = (0..tokens.len()).partition(|i| others.contains(i));
            let [off, right] = [off, right].map(|rows| rows.into_iter().map(|i| tokens[i]).collect::<BTreeSet<_>>());
            let from = off.first().filter(|first| right.last().is_some_and(|last| last < *first));
            let from = from.map(|first| format!(", all tokens from {first} on")).unwrap_or_default();
            format!("; {} rows are those of the token {ahead:+} from theirs{from}", others.len())
        } else {
            String::new()
        };
        Some(format!(
            "from position {position}: given {given}, and the candidate's embedding is that of {other}{pattern}"
        ))
    }
}
