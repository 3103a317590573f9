//! Attention to chosen blocks of keys, and the index branch that chooses them (SPEC A15, A16).

use ndarray::{Array2, Axis};

use super::decoder::Decoder;
use crate::config::Index;
use crate::ops::attention;
use crate::ops::block_sparse_attention::{self, BlockSparseAttention, block_sparse_attention};
use crate::ops::indexer::{self, Indexer};
use crate::ops::kv_cache::KvCache;
use crate::ops::linear::Linear;
use crate::ops::qk_norm::{QkNorm, qk_norm};
use crate::ops::rope::RopeTable;
use crate::run::{Run, vector};
use crate::semantics::{self, IndexCache, IndexInput, IndexKey, IndexNorm};
use crate::site::NONE;
use crate::weights::LayerWeight;
use crate::{Error, LayerSite, Real, RoundingContract, Site, Tracked};

/// C of a pass, row i·G + g token i's for group g.
pub(super) type Chosen = Array2<Option<usize>>;

impl Decoder<'_> {
    /// The seven steps of the index branch, of a layer's input before and after its norm, and its keys.
    pub(super) fn choose_blocks<T: Real>(
        &self,
        layer: usize,
        index: Index,
        [x, stream, main]: [&Tracked<T>; 3],
        table: &RopeTable<T>,
        cache: &mut KvCache<T>,
        run: &mut Run<'_, T>,
    ) -> Result<Chosen, Error> {
        let at = |site| Site::Layer(layer, site);
        let reads = self.semantics();
        let first = cache.len(layer);
        // 1. Projection and norm.
        let x = match reads.index_input {
            IndexInput::Normed => x,
            IndexInput::Stream => stream,
        };
        let project = |weight, site, run: &mut Run<'_, T>| -> Result<_, Error> {
            let own = run.within(RoundingContract::of_products);
            let y = own.linear(Linear::under, x, &self.layer_weight(layer, weight)?)?;
            Ok(run.visit(at(site), y))
        };
        let q = project(LayerWeight::IndexQProj, LayerSite::IndexQProj, run)?;
        let k = project(LayerWeight::IndexKProj, LayerSite::IndexKProj, run)?;
        let (q_norm, k_norm) = match self.semantics().index_norm {
            IndexNorm::Own | IndexNorm::None => (LayerWeight::IndexQNorm, LayerWeight::IndexKNorm),
            IndexNorm::Swapped => (LayerWeight::IndexKNorm, LayerWeight::IndexQNorm),
        };
        let q = self.index_norm(layer, q_norm, index.head_dim, &q, run)?;
        let q = run.visit(at(LayerSite::IndexQNorm), q);
        let projected = k.clone();
        let k = self.index_norm(layer, k_norm, index.head_dim, &k, run)?;
        let k = run.visit(at(LayerSite::IndexKNorm), k);
        let normed = k.clone();
        // 2. Rotation.
        let on = reads.index_rope.or(reads.index_rope_decode, first > 0 && x.dim().0 == 1);
        let (part, pair) = reads.rotation_of_index();
        let head = (index.head_dim, part, pair);
        let q = if on.has_queries() { self.rotate_pairs(&q, head, table, run)? } else { q };
        let q = run.visit(at(LayerSite::IndexQRope), q);
        let k = match self.semantics().index_key {
            IndexKey::Main => main.columns(0..index.head_dim),
            IndexKey::Own if on.has_keys() => self.rotate_pairs(&k, head, table, run)?,
            IndexKey::Own => k,
        };
        let k = run.visit(at(LayerSite::IndexKRope), k);
        let [kept, _] = reads.index_cache_type.storages();
        let k = kept.map_or_else(|| k.clone(), |storage| run.narrowed(&k, |_| storage));
        // 3. Cache.
        let is_step = first > 0 && k.dim().0 == 1;
        let held = match reads.index_cache {
            IndexCache::Unwritten if is_step => {
                let mut zeros = k.clone();
                zeros.clear(0);
                zeros
            }
            IndexCache::Repeated if is_step => {
                cache.index(layer).map_or_else(|| k.clone(), |all| all.rows(first - 1..first))
            }
            IndexCache::Own | IndexCache::Unwritten | IndexCache::Repeated => k.clone(),
            IndexCache::Unnormed => self.rotate_pairs(&projected, head, table, run)?,
            IndexCache::Unrotated => normed,
            IndexCache::Projected => projected,
        };
        let narrowed = |k: &Tracked<T>| run.narrowed(k, RoundingContract::cached);
        let q = run.narrowed(&q, |contract| contract.autocast.storage());
        let held = cache.append_index(layer, &narrowed(&held))?;
        let is_other =
            matches!(reads.index_cache, IndexCache::Unnormed | IndexCache::Unrotated | IndexCache::Projected);
        let read = is_other.then(|| held.rows(0..first).stacked(&narrowed(&k)));
        let k = read.as_ref().unwrap_or(held);
        // 4. Token scores.
        let params = |contract: &RoundingContract| {
            let heads = (index.heads, index.choices);
            Indexer::under(contract, self.semantics(), heads, index.head_dim, index.blocks)
        };
        let p = params(&run.contract);
        run.visit_on_request(at(LayerSite::TokenScores), |run| {
            let scores = indexer::token_scores(&p, q.view(), k.view())?;
            let scores = run.tracked(scores, |c, _| params(c).bound_scores(&q.widened(), &k.widened()));
            Ok(scores.select(&apart(q.dim().0, index.heads)))
        })?;
        // 5. Block maxima; sites have the tokens of one choice together.
        let (n, positions) = (q.dim().0, k.dim().0);
        let (apart, together) = (apart(n, index.choices), together(n, index.choices));
        let maxima = indexer::block_max(&p, q.view(), k.view())?;
        let maxima = run.tracked(maxima, |c, m| params(c).bound_block_max(&q.widened(), &k.widened(), m));
        let maxima = run.visit(at(LayerSite::BlockMax), maxima.select(&apart)).select(&together);
        // 6. What is forced.
        let boosted = indexer::boosted(&p, maxima.view(), positions);
        let boosted = run.tracked(boosted, |c, boosted| params(c).bound_boosted(maxima.error_or_exact(), boosted));
        let boosted = run.visit(at(LayerSite::BlockScore), boosted.select(&apart));
        // 7. Choice.
        let scores = boosted.select(&together);
        let chosen = indexer::choose(&p, scores.view()).mapv(|block| block.unwrap_or(NONE));
        let chosen = run.choose(at(LayerSite::Blocks), &boosted, chosen.select(Axis(0), &apart));
        let chosen = chosen.select(Axis(0), &together).mapv(|block| (block != NONE).then_some(block));
        let chosen = match reads.msa_tile {
            Some(tile) => chosen.select(Axis(0), &shared(n, index.choices, |row| tile.choice(row, n))),
            None => chosen,
        };
        let groups = self.config().num_key_value_heads;
        Ok(Array2::from_shape_fn((n * groups, chosen.ncols()), |(row, slot)| {
            chosen[[row / groups * index.choices + row % groups % index.choices, slot]]
        }))
    }

    fn index_norm<T: Real>(
        &self,
        layer: usize,
        weight: LayerWeight,
        head_dim: usize,
        x: &Tracked<T>,
        run: &Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        let over = match self.semantics().index_norm {
            IndexNorm::Own | IndexNorm::Swapped => semantics::QkNorm::PerHead,
            IndexNorm::None => semantics::QkNorm::None,
        };
        let semantics = self.semantics();
        let eps =
            if weight == LayerWeight::IndexQNorm { semantics.index_q_norm_eps } else { semantics.index_k_norm_eps };
        let params = |contract: &RoundingContract| {
            let norm = self.norm_params(contract, eps);
            QkNorm { norm, over, head_dim }.under(contract)
        };
        let w = self.layer_weight(layer, weight)?;
        let y = qk_norm(&params(&run.contract), x.view(), vector(&w).view())?;
        Ok(run.tracked(y, |candidate, y| params(candidate).bound(&x.widened(), vector(&w).view(), y)))
    }

    /// Attention proper. A candidate that shows its probabilities is judged on these and on what it makes of them.
    pub(super) fn attend_to_blocks<T: Real>(
        &self,
        layer: usize,
        [q, k, v]: [&Tracked<T>; 3],
        chosen: &Chosen,
        run: &mut Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        let params = |contract: &RoundingContract| BlockSparseAttention {
            attention: self.attention_params(contract, true, (q.dim().0, k.dim().0)),
            block: self.config().index.map_or(1, |index| index.blocks.size),
            mask: self.semantics().msa_mask,
            own: self.semantics().msa_own,
            group: self.semantics().msa_group,
            layout: self.semantics().msa_layout,
            shift: self.semantics().msa_shift,
        };
        let p = params(&run.contract);
        let mut computed = None;
        let shown = run.visit_on_request(Site::Layer(layer, LayerSite::Probabilities), |run| {
            let shown = block_sparse_attention::probabilities(&p, q.view(), k.view(), chosen.view())?;
            computed = Some(shown.clone());
            Ok(run.tracked(shown, |c, shown| {
                params(c).bound_probabilities(&q.widened(), &k.widened(), chosen.view(), shown)
            }))
        })?;
        let judged = run.candidate.is_some();
        let context = if let Some(shown) = shown.filter(|shown| judged || computed.as_ref() != Some(&shown.value)) {
            let o = attention::context(&p.attention, shown.view(), v.view());
            run.tracked(o, |c, o| params(c).attention.bound_context(&shown.widened(), &v.widened(), o))
        } else {
            let o = block_sparse_attention(&p, q.view(), k.view(), v.view(), chosen.view())?;
            run.tracked(o, |c, o| params(c).bound(&q.widened(), &k.widened(), &v.widened(), chosen.view(), o))
        };
        let context = self.context_as_written(k.dim().0 - q.dim().0, context);
        Ok(run.visit(Site::Layer(layer, LayerSite::Context), context))
    }
}

/// For the rows of n tokens, `each` of a token one after the other: their order in which all first ones come first.
fn apart(n: usize, each: usize) -> Vec<usize> {
    (0..each).flat_map(|which| (0..n).map(move |i| i * each + which)).collect()
}

/// For the rows of n tokens, `each` of a token one after the other: those of another token.
fn shared(n: usize, each: usize, whose: impl Fn(usize) -> usize) -> Vec<usize> {
    (0..n * each).map(|row| whose(row / each) * each + row % each).collect()
}

/// The other way round.
fn together(n: usize, each: usize) -> Vec<usize> {
    (0..n).flat_map(|i| (0..each).map(move |which| which * n + i)).collect()
}
