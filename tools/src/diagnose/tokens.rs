//! Whether a candidate was made from the tokens that are given: its embedding tells.

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
        let table = self.weights.get(Weight::Embedding).map_err(reference::Error::from)?;
        let mut first = 0;
        for (step, tokens) in self.compared.steps.iter().enumerate() {
            let at = At { step, site: Site::Embedding };
            let extent = Extent::new(tokens.len(), first + tokens.len());
            if self.compared.candidate.has(at) && self.compared.candidate.shown(at, extent)?.is_none() {
                let shown = self.compared.candidate.matrix(at, extent)?;
                self.require_rows(&table, tokens, &shown, first)?;
            }
            first += tokens.len();
        }
        Ok(())
    }

    fn require_rows(
        &self,
        table: &Matrix<'_>,
        tokens: &[u32],
        shown: &Array2<f64>,
        first: usize,
    ) -> Result<(), Failure> {
        let mut row = vec![0.0; table.dim().1];
        let mut is = |token: usize, shown: ArrayView1<'_, f64>| {
            table.row_into(token, &mut row);
            row.iter().zip(shown).all(|(x, shown)| self.contract.shown().nearest(*x) == *shown)
        };
        let Some(i) = (0..tokens.len()).find(|&i| !is(tokens[i] as usize, shown.row(i))) else { return Ok(()) };
        // No token's embedding: the embedding is at fault, not the prompt.
        let Some(other) = (0..table.dim().0).find(|&token| is(token, shown.row(i))) else { return Ok(()) };
        let shifted = (1..tokens.len()).all(|i| is(tokens[i - 1] as usize, shown.row(i)));
        let shifted = if shifted { "; the candidate's are shifted by one" } else { "" };
        let (position, given) = (first + i, tokens[i]);
        Err(Failure::new(format!(
            "tokens differ from position {position}: given {given}, and the candidate's embedding is that of {other}{shifted}"
        ))
        .help("give the tokens that the dump was made from"))
    }
}
