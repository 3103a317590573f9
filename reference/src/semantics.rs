//! The points on which the documents disagree with one another or with the released model, and change the equations.
//!
//! Each is one row of a table, with its label in part D of the specification, or without one where ports slip (part F); where a value
//! is rounded is said in [`crate::rounding`]. S0 to S4 are the documents 000 to 004, CH and § their chapters and sections.

mod attention;
mod blocks;
mod cache;
mod cache_form;
mod feed_forward;
mod mtp;
mod norms;
mod residual;
mod rope;
mod router;
mod table;
mod text;
mod vision;
mod weighing;

pub use attention::{AttentionScale, Causal, KeyHead, OperandType, ScoreType, Temperature, Viewed};
pub use blocks::{
    IndexCache, IndexHeads, IndexInput, IndexKey, IndexMask, IndexNorm, IndexRotated, MsaLayout, MsaLocal, MsaMask,
    MsaOwn, MsaPad, MsaPool, MsaScoreScale, MsaSelect, MsaTile, TileShares,
};
pub use cache::{CacheSeam, CacheType, Paged, SharedPage, WholePages};
pub use cache_form::{CacheForm, CacheGrid, CacheHalf, CacheSteps, ScaleOf};
pub use feed_forward::{Activation, ActivationIn, Expert, GateClamp, SharedScale, UpClamp};
pub use mtp::{Module, MtpConcat, MtpFirstEmbedding, MtpHidden, MtpTopology};
pub use norms::{EpsPlace, FinalNorm, NormMean, NormOrder, NormWeight, QkNorm, QkNormOn};
pub use residual::{PostNormInput, ResidualFrom, Unwritten, Written};
pub use rope::{AngleType, PositionShift, RopeCall, RopeFrequency, RopeOn, RopePair, RopePart, RopePosition};
pub use rope::{RopeScaling, Rotated, Shifted, Stretch};
pub use router::{ExpertChoice, ExpertGroups, NetworkInput, Renormalize};
pub use router::{RouterEps, RouterScore, RoutingWeights, WeightsOn};
pub use table::Common;
use table::table;
pub use vision::{AxialAxes, AxialOrder, AxialPair, ChunkTime, FeaturePlaces, Gelu};
pub use vision::{MergeOrder, PatchOrder, PostNorm, VisionSpan};
pub use weighing::{Merge, Merged, SharedHead, Split, Unseen, Zeros};

table! {
    rope {
        /// D01: which channels of a head rotate. S1 CH2.4, CH3.3 and S2 §5: the first; S0 CH2.5 and CH3.5: the last.
        rope_part: word RopePart = RopePart::First;
        /// D02: which channels form a rotated pair. No document says; the code has halves.
        rope_pair: word RopePair = RopePair::Half;
        /// D03: rotated channels, instead of the config's. All documents: 64.
        rotary_dim: number Option<usize> = None, common to calls;
        /// D04: RoPE base θ, instead of the config's. S0 and the code: 5e6; S1 CH1.2 and CH1.3: 5e5.
        rope_theta: number Option<f64> = None;
        /// What rotates.
        rope_on: word RopeOn = RopeOn::QueryKey;
        /// By what the exponent of a frequency is divided.
        rope_frequency: word RopeFrequency = RopeFrequency::RotaryDim;
        /// What positions are kept in.
        rope_position: word RopePosition = RopePosition::F32;
        /// Which channels of attention's heads rotate, instead of those of all.
        attention_rope_part: word_or_config Option<RopePart> = None;
        /// Positions that are off.
        position_shift: form Option<PositionShift> = None, common to calls;
        /// How queries rotate.
        rope_queries: word Rotated = Rotated::Once;
        /// How keys do.
        rope_keys: word Rotated = Rotated::Once;
        /// By how much the positions of keys are off beside those of queries; 0.
        key_shift: number Option<i32> = None;
        /// Where the positions of a call begin.
        rope_call: word RopeCall = RopeCall::Continued, common to both;
        /// What rotates in calls of one token after the first.
        rope_decode: word RopeOn = RopeOn::QueryKey, common to calls;
        /// What the inverse frequencies are kept in.
        rope_inv_freq: word AngleType = AngleType::F32;
        /// What the angles are kept in.
        rope_angle: word AngleType = AngleType::F32;
        /// By what the inverse frequencies are divided; 1.
        rope_linear: number Option<f64> = None;
        /// By what cosines and sines are multiplied; 1.
        rope_scale: number Option<f64> = None;
        /// By what frequencies are scaled for a longer context; none.
        rope_scaling: form Option<RopeScaling> = None;
    }
    rms_norm {
        /// D08: what norms multiply by, instead of the config's. M2: the weight; S1 and M3's code: one more than it.
        norm_weight: word_or_config Option<NormWeight> = None;
        /// D09: where ε stands. All but S3: inside the root; S3: outside.
        eps_place: word EpsPlace = EpsPlace::Inside;
        /// ε, instead of the config's.
        norm_eps: number Option<f64> = None;
        /// ε of the norms before attention alone.
        input_norm_eps: number Option<f64> = None;
        /// ε of the norms behind attention alone.
        post_attention_norm_eps: number Option<f64> = None;
        /// ε of the norm before the head alone.
        final_norm_eps: number Option<f64> = None, common to calls;
        /// Whether norms take the mean off first.
        norm_mean: word NormMean = NormMean::Kept;
        /// Whether the head reads the norm of the stream.
        final_norm: word FinalNorm = FinalNorm::Applied, common to calls;
    }
    qk_norm {
        /// D05: over what queries and keys are normed, instead of the config's. S2, S0 CH3.5 and the code: the whole
        /// projection in M2; S0 CH2.5 and S3: each head.
        qk_norm: word_or_config Option<QkNorm> = None;
        /// What the query and key norms are applied to.
        qk_norm_on: word QkNormOn = QkNormOn::QueryKey;
        /// Parts of the projections, one on each device, that queries and keys are normed by, each for itself.
        qk_shards: number Option<usize> = None;
        /// The same of queries alone.
        q_shards: number Option<usize> = None;
        /// The same of keys alone.
        k_shards: number Option<usize> = None;
        /// ε of the query and key norms, instead of the others'.
        qk_norm_eps: number Option<f64> = None;
        /// ε of the query norm alone.
        q_norm_eps: number Option<f64> = None;
        /// ε of the key norm alone.
        k_norm_eps: number Option<f64> = None;
        /// How many times their channels the queries' sum of squares is divided by; 1.
        q_norm_width: number Option<f64> = None;
        /// The same of the keys'.
        k_norm_width: number Option<f64> = None;
        /// Over what queries alone are normed, instead of both.
        query_norm: word_or_config Option<QkNorm> = None;
        /// Over what keys alone are normed, instead of both.
        key_norm: word_or_config Option<QkNorm> = None;
    }
    qk_norm_rope {
        /// Whether norm or rotation comes first.
        norm_order: word NormOrder = NormOrder::NormFirst;
    }
    attention {
        /// By what scores are scaled.
        attention_scale: word AttentionScale = AttentionScale::HeadDim;
        /// By what number scores are scaled, instead of that.
        score_scale: number Option<f64> = None;
        /// Which key head a query head reads.
        key_head: word KeyHead = KeyHead::Grouped;
        /// Whose heads, keys' or values' or both, are read as h mod G, whatever `key_head` says; none.
        tiled_heads: word_or_config Option<CacheHalf> = None;
        /// Which tokens a token sees.
        causal: word Causal = Causal::Inclusive;
        /// Positions of a tile that see each other both ways; none.
        causal_tile: number Option<usize> = None;
        /// What attention's softmax takes and gives.
        attention_softmax: word ScoreType = ScoreType::F32;
        /// The number c of c·tanh(s/c), which a scaled score s becomes; without one it stays s.
        soft_cap: number Option<f64> = None;
        /// A score of no key that the softmax's denominator has, too; none.
        attention_sink: number Option<f64> = None;
        /// Tokens that a token sees at most, itself and those before it; all.
        window: number Option<usize> = None;
        /// First tokens that see each other both ways; none.
        prefix: number Option<usize> = None;
        /// What queries are rounded to where scores are taken.
        query_type: word OperandType = OperandType::Own;
        /// First channels of a head that scores are taken over; all.
        query_channels: number Option<usize> = None;
        /// What probabilities are rounded to where values are weighed.
        probability_type: word OperandType = OperandType::Own;
        /// Keys that a token does not see; none.
        unseen: form Option<Unseen> = None;
        /// How splits of keys are put together, if not by their sums.
        merged: form Option<Merged> = None;
        /// A head of the context that holds another's; none.
        shared_head: form Option<SharedHead> = None;
        /// Whose heads are viewed where they have to be transposed.
        heads_viewed: word Viewed = Viewed::Nothing;
        /// What queries are multiplied by, by their position; 1.
        query_temperature: form Option<Temperature> = None;
    }
    kv_cache {
        /// What keys and values are kept in.
        cache_type: word CacheType = CacheType::Own, common to calls;
        /// Grids with scales of their own that keys or values are quantized to, or where they are clipped; none.
        cache_form: form Option<CacheForm> = None, common to calls;
        /// What becomes of the rows where one call's follow another's.
        cache_seam: word CacheSeam = CacheSeam::Kept, common to calls;
        /// What keys and values of the calls before are narrowed to as they are read.
        cache_read: word CacheType = CacheType::Own, common to calls;
        /// The same of quantized ones, with scales of their own.
        cache_read_form: form Option<CacheForm> = None, common to calls;
        /// Of which keys those of whole pages alone are seen, where a call follows others; all are seen.
        whole_pages: form Option<WholePages> = None, common to calls;
        /// Keys and values of zeros that every token sees beside its own; none.
        unfilled: form Option<Zeros> = None;
        /// Slots of a ring, in which a call's rows have taken the places of those before them; none.
        cache_ring: number Option<usize> = None;
        /// A page of positions that holds the keys and values of another; none.
        shared_page: form Option<SharedPage> = None;
    }
    indexer {
        /// D21: for whom blocks are chosen. S1 CH3.1 and CH3.3: once for all heads; the code: for each group of heads.
        msa_select: word MsaSelect = MsaSelect::HeadMax, released MsaSelect::PerGroup, common to calls;
        /// D22: which blocks a token reads whatever their scores. S1 CH3.3 and the code: its own; S1 CH3.4: the first.
        msa_local: word MsaLocal = MsaLocal::OwnBlock;
        /// D23: first blocks that are forced, instead of the config's. S1 lists them without saying more; the code: none.
        msa_init_block: number Option<usize> = None;
        /// Blocks up to its own that are forced, instead of the config's.
        msa_local_block: number Option<usize> = None;
        /// Keys of a block, instead of the config's.
        msa_block: number Option<usize> = None, common to calls;
        /// D24: by what token scores are scaled. S1 CH3.5 and the code: nothing, which chooses alike.
        msa_score_scale: word MsaScoreScale = MsaScoreScale::One;
        /// Of what a block's score is made. S1 explains why it is the largest; an engine has a second.
        msa_pool: word MsaPool = MsaPool::Max;
        /// Blocks a token reads, instead of the config's.
        msa_top_k: number Option<usize> = None, common to calls;
        /// What the last block of keys is filled up with.
        msa_pad: word MsaPad = MsaPad::Masked;
        /// What of the index branch rotates.
        index_rope: word RopeOn = RopeOn::QueryKey;
        /// By which weights the index branch norms.
        index_norm: word IndexNorm = IndexNorm::Own;
        /// What the index branch takes for its keys.
        index_key: word IndexKey = IndexKey::Own;
        /// From where the index branch counts the positions of a call's queries.
        index_call: word RopeCall = RopeCall::Continued;
        /// Which tokens the index branch scores.
        index_mask: word IndexMask = IndexMask::Token;
        /// ε of the index branch's query norm.
        index_q_norm_eps: number Option<f64> = None;
        /// ε of its key norm.
        index_k_norm_eps: number Option<f64> = None;
        /// What the index branch's token scores are kept in.
        index_scores: word ScoreType = ScoreType::F32;
        /// What the index branch projects.
        index_input: word IndexInput = IndexInput::Normed;
        /// How the channels of an index head rotate.
        index_rotated: word IndexRotated = IndexRotated::AsAll;
        /// What of the index branch rotates in calls of one token after the first.
        index_rope_decode: word RopeOn = RopeOn::QueryKey, common to calls;
        /// What the index branch's cache holds of its keys, as later calls read them.
        index_cache: word IndexCache = IndexCache::Own, common to calls;
        /// What its keys are rounded to where they are kept, beside what the precision says.
        index_cache_type: word CacheType = CacheType::Own;
        /// By how many keys blocks are off where their scores are taken; 0.
        index_shift: number Option<i32> = None;
        /// By which index heads' scores a group's blocks are chosen.
        index_heads: word IndexHeads = IndexHeads::Own;
        /// What the tokens of a tile have in common; nothing.
        msa_tile: form Option<MsaTile> = None;
    }
    block_sparse_attention {
        /// What of the keys a token sees.
        msa_mask: word MsaMask = MsaMask::Token;
        /// Which group's blocks a query head reads.
        msa_group: word KeyHead = KeyHead::Grouped;
        /// How often a token reads its own block.
        msa_own: word MsaOwn = MsaOwn::Once;
        /// How the rows of the choice of blocks are read.
        msa_layout: word MsaLayout = MsaLayout::TokenMajor;
        /// By how many keys blocks are off where attention reads them; 0.
        msa_shift: number Option<i32> = None;
    }
    residual {
        /// What attention's output is added to.
        attention_residual: word ResidualFrom = ResidualFrom::Stream;
        /// By what the stream is multiplied that attention's output is added to; 1.
        attention_alpha: number Option<f64> = None;
        /// By what attention's output is multiplied; 1.
        attention_beta: number Option<f64> = None;
        /// What the feed-forward network's output is added to.
        mlp_residual: word ResidualFrom = ResidualFrom::Stream;
        /// By what the stream is multiplied that the feed-forward network's output is added to; 1.
        mlp_alpha: number Option<f64> = None;
        /// By what the feed-forward network's output is multiplied; 1.
        mlp_beta: number Option<f64> = None;
        /// By what the stream behind a layer is multiplied; 1.
        layer_scale: number Option<f64> = None;
        /// Rows of what is added, or goes into it, that are never written; none.
        unwritten: form Option<Unwritten> = None, common to calls;
    }
    add_rms_norm {
        /// What the norm before the feed-forward network reads.
        post_norm_input: word PostNormInput = PostNormInput::Sum;
    }
    router {
        /// D11: experts a token is sent to, instead of the config's. S0 and the code: 8; S3: 2; S1: 4.
        top_k: number Option<usize> = None, common to calls;
        /// D35: which scores become the weights. S1, S2, S4 and the code: those without the bias; S0 CH5.1 does not say.
        routing_weights: word RoutingWeights = RoutingWeights::Unbiased;
        /// D35: what is added to the sum that weights are divided by. The code: nothing; an engine: 10⁻²⁰.
        router_eps: word RouterEps = RouterEps::Zero;
        /// D36: the router's nonlinearity. S3: the softmax of the chosen logits; all others: the sigmoid.
        router_score: word RouterScore = RouterScore::Sigmoid;
        /// By what routing weights are divided.
        renormalize: word Renormalize = Renormalize::Chosen;
        /// Which experts a token is sent to.
        expert_choice: word ExpertChoice = ExpertChoice::Distinct;
        /// Groups that experts are chosen from.
        expert_groups: form Option<ExpertGroups> = None;
        /// What the router reads.
        router_input: word NetworkInput = NetworkInput::Normed;
        /// What the router's scores are rounded to.
        router_scores: word ScoreType = ScoreType::F32;
        /// What the router's logits are computed in, from an input and a weight of that type.
        router_logits: word ScoreType = ScoreType::F32;
    }
    dense_ffn {
        /// The function on the gate, instead of the config's.
        activation: word_or_config Option<Activation> = None;
        /// In which networks of a layer with experts that, or one of the numbers of SwiGLU-OAI, is another.
        activation_in: word ActivationIn = ActivationIn::All;
    }
    swiglu {
        /// D31: whether feed-forward networks have a gate. S3's expert and S1 CH5.2's words: none; the code: one.
        expert: word Expert = Expert::Gated;
    }
    swiglu_oai {
        /// D32: how the gate is clamped. S1 CH5.2 and CH8.1: on both sides; the code: from above.
        gate_clamp: word GateClamp = GateClamp::Symmetric, released GateClamp::Upper;
        /// How the up projection is clamped.
        up_clamp: word UpClamp = UpClamp::Symmetric;
        /// To what the gate is clamped behind its sigmoid, instead of before.
        activated_limit: number Option<f64> = None;
        /// α of SwiGLU-OAI, by which the gate is multiplied in the sigmoid, instead of the config's.
        gate_alpha: number Option<f64> = None;
        /// β of SwiGLU-OAI, which is added to u, instead of the config's.
        up_beta: number Option<f64> = None;
        /// ℓ of SwiGLU-OAI, to which values are clamped, instead of the config's.
        swiglu_limit: number Option<f64> = None;
    }
    moe {
        /// By what the routed experts' sum is multiplied, instead of the config's.
        routed_scale: number Option<f64> = None;
        /// Where routing weights are multiplied in.
        weights_on: word WeightsOn = WeightsOn::Output;
        /// Tokens that an expert takes: what it would say to later ones is left out.
        expert_capacity: number Option<usize> = None;
        /// What the shared expert reads.
        shared_input: word NetworkInput = NetworkInput::Normed;
        /// By what the shared expert's output is multiplied.
        shared_scale: word SharedScale = SharedScale::One;
    }
    mtp {
        /// D17: how modules of multi-token prediction are put together, instead of as the config's family has them.
        mtp_topology: word_or_config Option<MtpTopology> = None;
        /// What stands first in the row that a module projects.
        mtp_concat: word MtpConcat = MtpConcat::EmbeddingFirst;
        /// What becomes of the embedding at position 0, instead of what the topology says.
        mtp_first_embedding: word_or_config Option<MtpFirstEmbedding> = None;
        /// Which of the model's hidden states the first module reads, instead of the topology's.
        mtp_hidden: word_or_config Option<MtpHidden> = None;
    }
    sampling {
        /// By how many rows logits are late; 0.
        logits_shift: number Option<i32> = None, common to both;
    }
    vision_attention common to both {
        /// D48: which patches a patch sees. S1 CH4.2: all; the code: those of its own image, or chunk of a video.
        vision_attention: word VisionSpan = VisionSpan::Segmented;
        /// By what number the tower scales its scores, instead of 1/√d.
        vision_score_scale: number Option<f64> = None;
    }
    gelu common to both {
        /// D50: which GELU. S1 does not say; the code has the exact one.
        gelu: word Gelu = Gelu::Erf;
        /// Which GELU the tower's layers have, instead of that.
        tower_gelu: word_or_config Option<Gelu> = None;
        /// Which the projector has in between its first two maps.
        projector_gelu: word_or_config Option<Gelu> = None;
        /// Which it has in between its last two.
        merge_gelu: word_or_config Option<Gelu> = None;
    }
    axial_rope common to both {
        /// D52: which channels form a pair. S1's text suggests each axis's own run of channels; the code has halves of all.
        axial_pair: word AxialPair = AxialPair::Half;
        /// In what order the rotation takes patches to come.
        axial_order: word AxialOrder = AxialOrder::Merged;
        /// Which place of a patch each third of the angles is made of.
        axial_axes: word AxialAxes = AxialAxes::TimeHeightWidth;
        /// What time a chunk of a video begins at.
        chunk_time: word ChunkTime = ChunkTime::Reset;
    }
    patch_merge common to both {
        /// Where the patches of a token lie.
        merge_order: word MergeOrder = MergeOrder::Block;
    }
    patch_embedding common to both {
        /// How the patch embedding's weight is read.
        patch_order: word PatchOrder = PatchOrder::ColourFirst;
        /// What pixels are kept in.
        pixels: word ScoreType = ScoreType::F32;
    }
    layer_norm common to both {
        /// Whether a norm follows the tower's last layer.
        vision_post_norm: word PostNorm = PostNorm::None;
        /// ε of the tower's norms, instead of the config's.
        vision_norm_eps: number Option<f64> = None;
        /// ε of the norms in its layers alone.
        vision_layer_norm_eps: number Option<f64> = None;
        /// ε of the norm before its layers alone.
        vision_pre_norm_eps: number Option<f64> = None;
    }
    masked_scatter common to both {
        /// In whose places features are put.
        feature_places: word FeaturePlaces = FeaturePlaces::Own;
    }
}
