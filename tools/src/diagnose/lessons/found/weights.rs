//! Of tensors, of networks, and of numbers of the configuration.

use super::told::{Found, found};
use crate::diagnose::search::kinds as k;

const READ_CONFIG: &str = "Print the number that the port uses beside config.json's, and pass that one on; a default of the \
                           library or of another model family is the usual source.";

pub(super) const FOUND: &[Found] = &[
    found(
        &k::SCALED,
        "Outputs of the part are off by one factor, which the diagnosis gives with its uncertainty; all else is right for what \
         it is given.",
        "Look for a scale that is applied twice, left out, or of another tensor, a merged adapter, or a conversion with its own \
         normalization; compare the named part of the loaded weight with the checkpoint's.",
    ),
    found(
        &k::ZERO,
        "Outputs of the part are 0, so what is added to the stream lacks it.",
        "The tensor, or the part that is named, was never filled: look for its name among those that the loader skipped.",
    ),
    found(
        &k::EXPERTS,
        "Choices and routing weights are right, and tokens get what other experts make of them.",
        "Stack experts in the order of their numbers: a list that is sorted as text has 10 before 2, and expert parallelism \
         may deal them out in turns.",
    ),
    found(
        &k::ROWS,
        "Each value of the output is right, in another channel: norms of rows hardly change, and all that follows is wrong.",
        "Undo the reordering: of heads for another rotation, of gate and up taken in turns, or of tiles of a packed weight.",
    ),
    found(
        &k::OTHER_LAYER,
        "One operator is off as by unrelated weights, where those before it are right.",
        "Check the layer's number in the loader's name map: off by one, or a tensor that is shared by reference.",
    ),
    found(
        &k::LAYERS,
        "Every operator of both layers is off, and the logits are wrong though the weights are all there.",
        "Load layers by the number in their names, not by the order in which files list them: layer 10 comes before 2 as text.",
    ),
    found(
        &k::LAYER_ORDER,
        "Each layer is right for what it is given, and is given another one's output.",
        "Run layers in the order of their numbers; of a pipeline, check which stage has which.",
    ),
    found(
        &k::TAKEN,
        "One operator is off as by unrelated weights of the right shape.",
        "Two names lead to the same tensor: check the name map for a pattern that matches both.",
    ),
    found(
        &k::EXCHANGED,
        "Both operators are off, each by what the other has.",
        "Exchange the two names in the loader: gate and up (w1 and w3), keys and values, or two norms of a layer.",
    ),
    found(
        &k::ONE_EXPERT,
        "Tokens that choose the expert are off, and the others are right: a short prompt may not show it.",
        "Look for what differs in this expert's tensors: a file that is damaged, a scale, or the last of a rank.",
    ),
    found(
        &k::PLUS_ONE,
        "One norm multiplies by w where the model has 1 + w, or the other way round: with weights near 0 or 1 its output is \
         nearly 0 or twice as large.",
        "Take this norm's weight as the model's others: M2 multiplies by w, M3 by 1 + w.",
    ),
    found(
        &k::NOT_LOADED,
        "The norm's output is off by its weight, channel by channel; the direction is kept roughly, and quality suffers.",
        "Its name was not matched, and the module kept what it was initialized with: make the loader refuse names that are \
         left over on either side.",
    ),
    found(
        &k::SIGNS,
        "Sums lose the terms' signs: outputs are of the right size and unrelated to the right ones.",
        "Check how bytes become numbers: signed against unsigned, or an unpacking that drops or flips the sign's bit.",
    ),
    found(
        &k::COLUMNS,
        "The operator is off as by unrelated weights, whose every row has the right norm.",
        "Inputs and weight have to agree in their channels: undo the reordering, or apply it to both.",
    ),
    found(
        &k::TRANSPOSED,
        "The operator is off as by unrelated weights of the same distribution.",
        "PyTorch keeps [out, in]: transpose once, where the library wants [in, out], and check square matrices by values.",
    ),
    found(
        &k::ROUNDED,
        "Outputs are off by the rounding of the weights: a few per mille with 8 bits of precision, more with fewer.",
        "Load the weight in the type that the checkpoint has, or name the precision that is meant by --precision.",
    ),
    found(
        &k::SCALES,
        "Weights are off by the square of each block's scale, or by the ratio of two scales: outputs are far too large or too \
         small, or wrong block by block.",
        "Multiply each block by its own scale, rows by rows and columns by columns of blocks. weight_scale_inv is the factor \
         itself, whatever its name says of an inverse.",
    ),
    found(
        &k::NORM_EPS,
        "Rows of small norm are off most, all others hardly: the quieter the stream, the larger the error.",
        READ_CONFIG,
    ),
    found(&k::QK_NORM_EPS, "Queries and keys of small norm are off, and with them attention's scores.", READ_CONFIG),
    found(&k::INPUT_NORM_EPS, "What attention reads is too large or too small where the stream is quiet.", READ_CONFIG),
    found(
        &k::POST_ATTENTION_NORM_EPS,
        "What router and experts read is too large or too small where the stream is quiet.",
        READ_CONFIG,
    ),
    found(&k::FINAL_NORM_EPS, "Logits of rows of small norm are off by a factor.", READ_CONFIG),
    found(&k::Q_NORM_EPS, "Queries of small norm are too long or too short, and scores with them.", READ_CONFIG),
    found(&k::K_NORM_EPS, "Keys of small norm are too long or too short, and scores with them.", READ_CONFIG),
    found(
        &k::INDEX_Q_NORM_EPS,
        "The index branch's queries are off by a factor a row: near ties of blocks flip.",
        READ_CONFIG,
    ),
    found(
        &k::INDEX_K_NORM_EPS,
        "The index branch's keys are off by a factor each: other blocks are chosen.",
        READ_CONFIG,
    ),
    found(&k::VISION_NORM_EPS, "Patches of little contrast are off in every layer of the tower.", READ_CONFIG),
    found(
        &k::VISION_LAYER_NORM_EPS,
        "Patches of little contrast are off behind each norm of the tower's layers.",
        READ_CONFIG,
    ),
    found(&k::VISION_PRE_NORM_EPS, "Patches of little contrast are off from the tower's first norm on.", READ_CONFIG),
    found(
        &k::ACTIVATED_LIMIT,
        "Large gates are cut to another size behind the sigmoid; what is below both limits is right.",
        "Clamp the gate before its sigmoid, from above, to swiglu_limit of config.json.",
    ),
    found(
        &k::ACTIVATION_IN,
        "Either the routed or the shared experts' output is wrong, the other's right.",
        "Use one activation for both: SwiGLU-OAI with α, β and the limit of config.json in M3.",
    ),
    found(&k::LIMIT, "Only values beyond the smaller of the two limits are off: few, and the largest.", READ_CONFIG),
    found(&k::ALPHA, "Gates near 0 are off most: the sigmoid is steeper or flatter.", READ_CONFIG),
    found(&k::BETA, "Each expert's output lacks, or has too much of, the gate alone.", READ_CONFIG),
    found(
        &k::ROUTED_SCALE,
        "The routed experts' sum is off by one factor, the shared expert's output is right.",
        "Multiply the routed sum once by routed_scaling_factor of config.json: in the weights or behind, not both.",
    ),
    found(
        &k::LAYER_SCALE,
        "Every value of the stream behind the layer is too large or too small by one factor; norms undo it, so that logits hardly \
         change, and what later layers add counts for less or more.",
        "Look for a scale of a layer's output that another model family has, or one of its blocks' that is applied to the sum.",
    ),
    found(
        &k::CAPACITY,
        "Early tokens are right; later ones that choose a popular expert lack what it would have added.",
        "Inference drops no token: raise the capacity to the number of tokens, or use a grouped product without one.",
    ),
    found(
        &k::UNWRITTEN,
        "Rows are exactly 0: the last of a tile, or of a batch, as where the grid is rounded down.",
        "Round the number of blocks up, and guard the last one's rows.",
    ),
    found(
        &k::UNSEEN,
        "The values shown are right or wrong by themselves, and what follows is right for others.",
        "Save what the next module is given: a hook sees a tensor before an operation in place, or a fused path ignores it.",
    ),
    found(
        &k::CAPTURED,
        "Tensors are equal to what other sites have: the model's outputs are right.",
        "Mend the hooks, not the model: check which module, and whether its input or its output, each name is saved from.",
    ),
];
