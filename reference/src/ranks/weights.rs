//! A rank's part of a model's weights, as they are stored: quantized ones with the scales of their blocks.

use std::ops::Range;

use ndarray::{Array2, Axis, Slice};

use super::Ranks;
use crate::config::Config;
use crate::error::WeightError;
use crate::matrix::Matrix;
use crate::semantics::QkNorm;
use crate::weights::{LayerWeight, Projection, Weight, Weights};

/// What a rank has of a model's weights: heads that are padded are zeros.
#[derive(Clone, Copy)]
pub struct RankWeights<'w> {
    /// The model's.
    pub weights: &'w dyn Weights,
    /// The model.
    pub config: &'w Config,
    /// The group.
    pub ranks: Ranks,
    /// Which of its ranks.
    pub rank: usize,
}

impl<'w> RankWeights<'w> {
    /// Those of each rank.
    pub fn of_all(config: &'w Config, ranks: Ranks, weights: &'w dyn Weights) -> Vec<Self> {
        (0..ranks.count).map(|rank| RankWeights { weights, config, ranks, rank }).collect()
    }

    /// Rows or columns of the model's weight that a rank has, none for zeros; all of them, if `None`.
    fn own(&self, weight: LayerWeight) -> Option<(Axis, Vec<Option<Range<usize>>>)> {
        use LayerWeight::{Dense, IndexQProj, KNorm, KProj, OProj, QNorm, QProj, Shared, VProj};
        let (config, ranks) = (self.config, &self.ranks);
        let d = config.head_dim;
        let channels = |head: usize, d: usize| head * d..(head + 1) * d;
        let queries = || ranks.query_heads(self.rank).into_iter().map(|head| Some(channels(head?, d))).collect();
        let keys = |d: usize| ranks.key_heads(self.rank).map(|head| Some(channels(head, d))).collect();
        let part = |size| vec![Some(ranks.part(size, self.rank))];
        let (rows, columns) = (Axis(0), Axis(1));
        let axis_of = |projection| if projection == Projection::Down { columns } else { rows };
        match weight {
            QProj => Some((rows, queries())),
            KProj | VProj => Some((rows, keys(d))),
            IndexQProj => Some((rows, keys(config.index?.head_dim))),
            OProj => Some((columns, queries())),
            QNorm if config.qk_norm == QkNorm::FullProjection => Some((columns, queries())),
            KNorm if config.qk_norm == QkNorm::FullProjection => Some((columns, keys(d))),
            Dense(projection) => Some((axis_of(projection), part(config.dense_intermediate_size))),
            Shared(projection) => Some((axis_of(projection), part(config.shared_intermediate_size))),
            _ => None,
        }
    }

    /// Rows or columns of a weight, and zeros as wide as a head.
    fn taken(
        &self,
        weight: Weight,
        w: &Matrix<'_>,
        axis: Axis,
        parts: &[Option<Range<usize>>],
    ) -> Result<Matrix<'static>, WeightError> {
        if let Some(all) = one_after_another(parts) {
            let own = if axis == Axis(0) { Some(w.rows(all)) } else { w.columns(all) };
            return own.ok_or_else(|| self.refused(weight, w, "ranks would cut through its blocks"));
        }
        if w.scales().is_some() {
            return Err(self.refused(weight, w, "heads of zeros have no scales"));
        }
        let all = w.dense::<f64>();
        let zeros = || {
            let mut dim = all.raw_dim();
            dim[axis.index()] = self.config.head_dim;
            Array2::zeros(dim)
        };
        let cut = |part: &Range<usize>| all.slice_axis(axis, Slice::from(part.clone())).to_owned();
        let part = |part: &Option<Range<usize>>| part.as_ref().map_or_else(zeros, cut);
        let parts: Vec<Array2<f64>> = parts.iter().map(part).collect();
        let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
        let own = ndarray::concatenate(axis, &views).expect("parts of one matrix");
        Ok(Matrix::stored(own.view(), w.storage()))
    }

    fn refused(&self, weight: Weight, w: &Matrix<'_>, why: &str) -> WeightError {
        let (down, across) = w.scales().map_or((1, 1), |scales| scales.block);
        let problem = format!("is quantized in blocks of {down} × {across}: {why}");
        let help = Some(format!("give fewer ranks than {}, or a checkpoint in bf16", self.ranks.count));
        WeightError { tensor: weight.to_string(), problem, help }
    }
}

/// All of ranges that follow one another without zeros between them.
fn one_after_another(parts: &[Option<Range<usize>>]) -> Option<Range<usize>> {
    let parts: Vec<&Range<usize>> = parts.iter().map(Option::as_ref).collect::<Option<_>>()?;
    let follow = parts.windows(2).all(|two| two[0].end == two[1].start);
    follow.then(|| parts[0].start..parts[parts.len() - 1].end)
}

impl Weights for RankWeights<'_> {
    fn get(&self, weight: Weight) -> Result<Matrix<'_>, WeightError> {
        let whole = || self.weights.get(weight);
        match weight {
            Weight::Embedding | Weight::LmHead => {
                let own = self.ranks.part(self.config.vocab_size, self.rank);
                self.taken(weight, &whole()?, Axis(0), &[Some(own)])
            }
            Weight::Layer(_, LayerWeight::Expert(expert, _))
                if !self.ranks.part(self.config.num_local_experts, self.rank).contains(&expert) =>
            {
                let problem = format!("is not on rank {}", self.rank);
                Err(WeightError { tensor: weight.to_string(), problem, help: None })
            }
            Weight::Layer(_, inner) => match self.own(inner) {
                Some((axis, parts)) => self.taken(weight, &whole()?, axis, &parts),
                None => whole(),
            },
            Weight::FinalNorm | Weight::Vision(_) | Weight::Mtp(..) => whole(),
        }
    }
}
