//! Attention of a decoder's layer: projections, norms, rotation, cache, and what is seen of it (SPEC A4 to A8).

use std::ops::Range;

use super::decoder::Decoder;
use crate::ops::attention::temperature::{self, tempered};
use crate::ops::attention::{self, Attention, attention};
use crate::ops::kv_cache::{KvCache, form};
use crate::ops::linear::Linear;
use crate::ops::rope::{Rope, RopeTable, rope, rope_table};
use crate::ranks::Ranks;
use crate::run::Run;
use crate::semantics::{
    CacheGrid, PositionShift, QkNorm, QkNormOn, RopeOn, RopePair, RopePart, Rotated, Shifted, Written,
};
use crate::weights::LayerWeight;
use crate::{Error, LayerSite, Real, RoundingContract, Site, Storage, Tracked};

impl Decoder<'_> {
    /// Attention of a layer, of what its norm gives and of the stream that the norm reads.
    pub(super) fn attention<T: Real>(
        &self,
        layer: usize,
        [x, stream]: [&Tracked<T>; 2],
        table: &RopeTable<T>,
        cache: &mut KvCache<T>,
        run: &mut Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        let [q, k, v] = self.projected(layer, x, run)?;
        let norms_first = self.semantics().norm_order.rotates_first().map(|rotates_first| !rotates_first);
        // What norms each head reads it as it was cut.
        let is_cut = self.semantics().qk_norm.unwrap_or(self.config().qk_norm) == QkNorm::PerHead;
        let [q, k, v] = if is_cut { self.as_viewed([q, k, v]) } else { [q, k, v] };
        let (q, k) = self.norm_some(layer, norms_first, (q, k), run)?;
        let all = if is_cut { [q, k, v] } else { self.as_viewed([q, k, v]) };
        self.attended(layer, [x, stream], all, table, cache, run)
    }

    /// Queries, keys and values before their norms.
    pub(super) fn projected<T: Real>(
        &self,
        layer: usize,
        x: &Tracked<T>,
        run: &mut Run<'_, T>,
    ) -> Result<[Tracked<T>; 3], Error> {
        let mut project = |weight, site| -> Result<_, Error> {
            let own = run.within(RoundingContract::of_products);
            let y = own.linear(Linear::under, x, &self.layer_weight(layer, weight)?)?;
            Ok(run.visit(Site::Layer(layer, site), y))
        };
        let q = project(LayerWeight::QProj, LayerSite::QProj)?;
        let k = project(LayerWeight::KProj, LayerSite::KProj)?;
        Ok([q, k, project(LayerWeight::VProj, LayerSite::VProj)?])
    }

    /// What queries, keys and values become, normed where that comes before the rotation.
    pub(super) fn attended<T: Real>(
        &self,
        layer: usize,
        [x, stream]: [&Tracked<T>; 2],
        [q, k, v]: [Tracked<T>; 3],
        table: &RopeTable<T>,
        cache: &mut KvCache<T>,
        run: &mut Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        let at = |site| Site::Layer(layer, site);
        let reads = self.semantics();
        let first = cache.len(layer);
        let (q, k) = self.rotate_both(layer, (q, k, first), table, run)?;
        let (q, k) = self.norm_some(layer, reads.norm_order.rotates_first(), (q, k), run)?;
        let v = match reads.qk_norm_on {
            QkNormOn::QueryKeyValue => self.qk_norm(LayerWeight::KNorm, layer, &v, run)?,
            QkNormOn::QueryKey | QkNormOn::Query => v,
        };
        let head = (self.config().head_dim, reads.part_of_attention());
        let v = if reads.rope_on == RopeOn::QueryKeyValue { self.rotate(&v, head, table, run)? } else { v };
        let q = match reads.query_temperature {
            Some(temperature) => {
                let y = tempered(&run.contract, temperature, q.view(), first);
                run.tracked(y, |c, y| temperature::bound(c, temperature, &q.widened(), first, y))
            }
            None => q,
        };
        let blocks = match self.config().index_of(layer) {
            Some(index) => Some(self.choose_blocks(layer, index, [x, stream, &k], table, cache, run)?),
            None => None,
        };
        let to_blocks = blocks.is_some();
        let kept = |x: &Tracked<T>, narrow: Option<Storage>, grid: Option<CacheGrid>| {
            let x = match grid {
                Some(grid) => {
                    run.narrowed(&form::kept(x, grid, self.config().head_dim), |contract| contract.activations)
                }
                None => x.clone(),
            };
            let x = run.narrowed(&x, |contract| contract.attending(to_blocks).cached());
            match narrow {
                Some(storage) => x.performed(storage),
                None => x,
            }
        };
        let [of_keys, of_values] = reads.cache_type.storages();
        let [form_of_keys, form_of_values] =
            [0, 1].map(|half| reads.cache_form.filter(|form| form.of.has()[half]).map(|form| form.grid));
        let (k, v) = cache.append(layer, &kept(&k, of_keys, form_of_keys), &kept(&v, of_values, form_of_values))?;
        let slipped = KvCache::slipping((k, v), reads, q.dim().0);
        let (k, v) = slipped.as_ref().map_or((k, v), |(k, v)| (k, v));
        let reread = self.read_on_grid([k, v], first, run);
        let (k, v) = reread.as_ref().map_or((k, v), |[k, v]| (k, v));
        let shape = (q.dim().0, k.dim().0);
        let q = run.narrowed(&q, |contract| self.attention_params(contract, to_blocks, shape).query);
        let q = match reads.query_type.storage() {
            Some(storage) => q.performed(storage),
            None => q,
        };
        let q = match reads.query_channels {
            Some(count) => q.without_columns(|column| column % self.config().head_dim >= count),
            None => q,
        };
        let context = match blocks {
            Some(blocks) => self.attend_to_blocks(layer, [&q, k, v], &blocks, run)?,
            None => self.attend(layer, &q, k, v, run)?,
        };
        let own = run.within(RoundingContract::of_products);
        let columns = self.columns_of_ranks(context.dim().1, own.ranks());
        let o = own.row_parallel(&context, &self.layer_weight(layer, LayerWeight::OProj)?, &columns)?;
        let o = own.all_reduce(&o)?;
        let o = run.visit(at(LayerSite::OProj), self.written(Written::OProj, first, o));
        Ok(run.visit(at(LayerSite::Attention), o))
    }

    /// Keys and values as a call from a position on reads them, where those of calls before it are quantized as it reads them.
    fn read_on_grid<T: Real>(&self, kept: [&Tracked<T>; 2], first: usize, run: &Run<'_, T>) -> Option<[Tracked<T>; 2]> {
        let form = self.semantics().cache_read_form.filter(|_| first > 0)?;
        let read = |half: usize| {
            let all = kept[half];
            if !form.of.has()[half] {
                return all.clone();
            }
            let stored = |past: Tracked<T>| run.narrowed(&past, |contract| contract.activations);
            form::read(all, (form.grid, self.config().head_dim), first, stored)
        };
        Some([0, 1].map(read))
    }

    /// The columns of the context that ranks have which share heads; all, if they cannot.
    fn columns_of_ranks(&self, width: usize, count: usize) -> Vec<Range<usize>> {
        let ranks = Ranks::of_attention(self.config(), count).ok();
        let own = ranks.filter(|_| width == self.config().query_width());
        own.map_or_else(|| Ranks::even_parts(width, 1), |ranks| ranks.query_channels(self.config().head_dim))
    }

    /// Attention proper. A candidate that shows its probabilities is judged on these and on what it makes of them. Else
    /// what a site shows is not what attention adds up (R2 of flash), unless a probe put it there.
    fn attend<T: Real>(
        &self,
        layer: usize,
        q: &Tracked<T>,
        k: &Tracked<T>,
        v: &Tracked<T>,
        run: &mut Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        let params = |contract: &RoundingContract| self.attention_params(contract, false, (q.dim().0, k.dim().0));
        let p = params(&run.contract);
        run.visit_on_request(Site::Layer(layer, LayerSite::Scores), |run| {
            let scores = attention::scores(&p, q.view(), k.view())?;
            Ok(run.tracked(scores, |c, scores| params(c).bound_scores(&q.widened(), &k.widened(), scores)))
        })?;
        let mut computed = None;
        let shown = run.visit_on_request(Site::Layer(layer, LayerSite::Probabilities), |run| {
            let shown = attention::probabilities(&p, q.view(), k.view())?;
            computed = Some(shown.clone());
            Ok(run.tracked(shown, |c, shown| params(c).bound_probabilities(&q.widened(), &k.widened(), shown)))
        })?;
        let judged = run.candidate.is_some();
        let context = if let Some(shown) = shown.filter(|shown| judged || computed.as_ref() != Some(&shown.value)) {
            let o = attention::context(&p, shown.view(), v.view());
            run.tracked(o, |c, o| params(c).bound_context(&shown.widened(), &v.widened(), o))
        } else {
            let o = attention(&p, q.view(), k.view(), v.view())?;
            run.tracked(o, |c, o| params(c).bound(&q.widened(), &k.widened(), &v.widened(), o))
        };
        let context = self.context_as_written(k.dim().0 - q.dim().0, context);
        Ok(run.visit(Site::Layer(layer, LayerSite::Context), context))
    }

    /// Of attention to chosen blocks or to all keys, in a call of so many rows and keys.
    pub(super) fn attention_params(
        &self,
        contract: &RoundingContract,
        to_blocks: bool,
        (rows, keys): (usize, usize),
    ) -> Attention {
        let heads = (self.config().num_attention_heads, self.config().num_key_value_heads);
        let attention = Attention::under(&contract.attending(to_blocks), heads, self.config().head_dim).of_rows(rows);
        let lost = self.semantics().whole_pages.and_then(|pages| pages.lost(rows, keys));
        let call = keys.saturating_sub(rows);
        Attention { lost, call, ..attention.slipping(self.semantics(), self.config().rotary_dim) }
    }

    /// Queries, keys, or both behind their norms.
    pub(super) fn norm_some<T: Real>(
        &self,
        layer: usize,
        [of_queries, of_keys]: [bool; 2],
        (mut q, mut k): (Tracked<T>, Tracked<T>),
        run: &mut Run<'_, T>,
    ) -> Result<(Tracked<T>, Tracked<T>), Error> {
        if of_queries {
            q = self.qk_norm(LayerWeight::QNorm, layer, &q, run)?;
            q = run.visit(Site::Layer(layer, LayerSite::QNorm), q);
        }
        if of_keys {
            if self.semantics().qk_norm_on != QkNormOn::Query {
                k = self.qk_norm(LayerWeight::KNorm, layer, &k, run)?;
            }
            k = run.visit(Site::Layer(layer, LayerSite::KNorm), k);
        }
        Ok((q, k))
    }

    fn rotate_both<T: Real>(
        &self,
        layer: usize,
        (q, k, first): (Tracked<T>, Tracked<T>, usize),
        table: &RopeTable<T>,
        run: &mut Run<'_, T>,
    ) -> Result<(Tracked<T>, Tracked<T>), Error> {
        let reads = self.semantics();
        let on = reads.rope_on.or(reads.rope_decode, first > 0 && q.dim().0 == 1);
        let head = (self.config().head_dim, reads.part_of_attention());
        let q = if on.has_queries() { self.rotate_as(reads.rope_queries, &q, head, table, run)? } else { q };
        let q = run.visit(Site::Layer(layer, LayerSite::QRope), q);
        let of_keys = self.table_of_keys(first, k.dim().0, run);
        let of_keys = of_keys.as_ref().unwrap_or(table);
        let k = if on.has_keys() { self.rotate_as(reads.rope_keys, &k, head, of_keys, run)? } else { k };
        Ok((q, run.visit(Site::Layer(layer, LayerSite::KRope), k)))
    }

    /// Heads of queries or keys as they rotate, if not as they have to.
    fn rotate_as<T: Real>(
        &self,
        way: Rotated,
        x: &Tracked<T>,
        (head_dim, part): (usize, RopePart),
        table: &RopeTable<T>,
        run: &Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        let once = |x: &Tracked<T>| self.rotate(x, (head_dim, part), table, run);
        match way {
            Rotated::Once => once(x),
            Rotated::Twice => once(&once(x)?),
            Rotated::Back => self.rotate(x, (head_dim, part), &table.reversed(), run),
            Rotated::Last => self.rotate(x, (head_dim, RopePart::Last), table, run),
            Rotated::Interleaved => self.rotate_pairs(x, (head_dim, part, RopePair::Interleaved), table, run),
            Rotated::Exchanged => {
                let half = self.config().rotary_dim / 2;
                let first = if part == RopePart::First { 0 } else { head_dim - 2 * half };
                let source = |column: usize| match (column % head_dim).checked_sub(first) {
                    Some(place) if place < half => column + half,
                    Some(place) if place < 2 * half => column - half,
                    _ => column,
                };
                Ok(once(x)?.with_columns(&(0..x.dim().1).map(source).collect::<Vec<_>>()))
            }
        }
    }

    /// The rotation table of keys whose positions are off beside those of queries.
    fn table_of_keys<T: Real>(&self, first: usize, tokens: usize, run: &Run<'_, T>) -> Option<RopeTable<T>> {
        let by = self.semantics().key_shift?;
        let shift = Some(PositionShift { from: 0, to: Shifted::By(by) });
        let params = |contract: &RoundingContract| Rope { shift, ..self.rope(contract) };
        let table = rope_table::<T>(&params(&run.contract), first, tokens);
        let bounded = |x: Tracked<T>| run.tracked(x.value, |c, x| params(c).table_bound(first, x));
        Some(RopeTable { cos: bounded(table.cos), sin: bounded(table.sin) })
    }

    /// Heads of so many channels, of which the first or the last rotate.
    fn rotate<T: Real>(
        &self,
        x: &Tracked<T>,
        (head_dim, part): (usize, RopePart),
        table: &RopeTable<T>,
        run: &Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        self.rotate_pairs(x, (head_dim, part, self.semantics().rope_pair), table, run)
    }

    /// The same of pairs that are formed so.
    pub(super) fn rotate_pairs<T: Real>(
        &self,
        x: &Tracked<T>,
        (head_dim, part, pair): (usize, RopePart, RopePair),
        table: &RopeTable<T>,
        run: &Run<'_, T>,
    ) -> Result<Tracked<T>, Error> {
        let params = |contract: &RoundingContract| Rope { head_dim, part, pair, ..self.rope(contract) };
        let y = rope(&params(&run.contract), x.view(), table.cos.view(), table.sin.view())?;
        Ok(run.tracked(y, |candidate, y| {
            let table = RopeTable { cos: table.cos.widened(), sin: table.sin.widened() };
            params(candidate).bound(&x.widened(), &table, y)
        }))
    }
}
