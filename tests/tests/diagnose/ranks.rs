//! Mistakes of ports that share a model over ranks, made by a group of ranks.

use reference::RoundingContract;
use reference::error::WeightError;
use reference::matrix::Matrix;
use reference::models::group::Group;
use reference::ranks::Ranks;
use reference::ranks::weights::RankWeights;
use reference::weights::{LayerWeight, Weight, Weights};
use tests::mistaken::{Setting, recorded};
use tools::diagnose::diagnosis::Diagnosis;

use super::altered::told;

/// Eight ranks share six query heads and two key heads: two ranks have zeros for queries, and four the same keys.
const RANKS: usize = 8;

/// What a rank takes for its norms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Takes {
    Own,
    /// The first rank's part of the query norm.
    First,
    /// Its part of the key norm's elements, each repeated as often as key heads are.
    Repeated,
    /// Its part of the key norm, as if each rank had other keys, repeated over a head.
    Cut,
}

struct Slipped<'w> {
    own: RankWeights<'w>,
    takes: Takes,
}

impl Weights for Slipped<'_> {
    fn get(&self, weight: Weight) -> Result<Matrix<'_>, WeightError> {
        match (self.takes, weight) {
            (Takes::First, Weight::Layer(_, LayerWeight::QNorm)) => {
                let first = RankWeights { rank: 0, ..self.own };
                let w = first.get(weight)?;
                Ok(w.view().into_owned())
            }
            (Takes::Repeated, Weight::Layer(_, LayerWeight::KNorm)) => {
                let (all, replicas) = (self.own.weights.get(weight)?, self.own.ranks.replicas());
                let (w, d) = (all.dense::<f64>(), self.own.config.head_dim);
                let part = ndarray::Array2::from_shape_fn((1, d), |(_, j)| w[[0, (self.own.rank * d + j) / replicas]]);
                Ok(Matrix::stored(part.view(), all.storage()))
            }
            (Takes::Cut, Weight::Layer(_, LayerWeight::KNorm)) => {
                let all = self.own.weights.get(weight)?;
                let (w, d) = (all.dense::<f64>(), self.own.config.head_dim);
                let part = w.len() / RANKS;
                let cut = ndarray::Array2::from_shape_fn((1, d), |(_, j)| w[[0, self.own.rank * part + j % part]]);
                Ok(Matrix::stored(cut.view(), all.storage()))
            }
            _ => self.own.get(weight),
        }
    }
}

/// What is said of ranks that divide by these numbers, the right ones if `None`.
fn said(takes: Takes, divisors: Option<[usize; 2]>) -> Diagnosis {
    let setting = Setting::of("m2-gqa3-f32", RoundingContract::EAGER_F32);
    let checkpoint = setting.case.checkpoint().expect("it is whole");
    let ranks = Ranks::of(checkpoint.config(), RANKS).expect("it can be shared");
    let own = RankWeights::of_all(checkpoint.config(), ranks, &checkpoint);
    let weights: Vec<Slipped<'_>> = own.into_iter().map(|own| Slipped { own, takes }).collect();
    let group = Group::new(checkpoint.config(), setting.semantics(), ranks, &weights).expect("it can be shared");
    let group = match divisors {
        Some(divisors) => group.dividing(divisors),
        None => group,
    };
    let live = recorded(setting.contract, |run| {
        group.pass(&setting.case.tokens, &mut group.caches(), run).expect("it runs");
    });
    setting.diagnose(&live)
}

#[test]
fn ranks_without_a_mistake_are_right() {
    let right = said(Takes::Own, None);
    assert!(right.explained.is_empty() && right.unexplained.is_none(), "{right:#?}");
}

#[test]
fn the_first_ranks_slice_is_named() {
    told(&said(Takes::First, None), "qk_rank_const", "the first of 6 parts for all");
}

#[test]
fn a_divisor_with_padding_is_named() {
    let (padded, keys) = (8 * 16, 8 * 16);
    told(&said(Takes::Own, Some([padded, keys])), "qk_divisor_padded_q", "q_norm_width=1.33");
}

#[test]
fn a_divisor_without_replicas_is_named() {
    told(&said(Takes::Own, Some([6 * 16, 2 * 16])), "qk_divisor_unreplicated_k", "k_norm_width=0.25");
}

/// Demands what is named first. Replicas of a key head have other keys each, so that no one set of keys explains what heads on other
/// ranks attend to.
fn first_told(takes: Takes, name: &str, way: &str) {
    let diagnosis = said(takes, None);
    let [first, ..] = &diagnosis.explained[..] else { panic!("{diagnosis:#?}") };
    assert_eq!((first.name, &first.way[..]), (name, way));
}

#[test]
fn a_flat_repeat_is_named() {
    let way = "each element of each head of the key norm 4 times";
    first_told(Takes::Repeated, "knorm_elementwise_repeat", way);
}

#[test]
fn a_cut_by_ranks_is_named() {
    let way = "the first of 4 parts of each head of the key norm for all";
    first_told(Takes::Cut, "knorm_shard_when_tp_gt_kv", way);
}
