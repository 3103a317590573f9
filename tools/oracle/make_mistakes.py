"""Makes the dumps of known mistakes: what golden cases would compute if the model's implementation had one.

    python tools/oracle/make_mistakes.py --golden fixtures/golden --out fixtures/golden-mistakes

Needs exactly the versions in requirements.txt. The dumps are coarse, the embedding and each layer's output, as a hook
on layers alone makes them: what is wrong inside of a layer must be found from its ends. Those of a vision tower have its
layers' outputs and the features; a few have one more value, which nothing else would tell. The folder has

    CASE/MISTAKE.safetensors   one dump for each mistake that the case's family can have
    CASE/model/, case.json     checkpoint and prompt of a case that is no golden one
    index.json                 each dump's file, case and mistake, what is wrong, and what it did to the logits
    provenance.json            command, versions, machine, and the SHA-256 of each file
"""

import pinned  # isort: skip
from collections.abc import Iterator
from pathlib import Path

from case_folder import write_case
from families import FAMILIES, family_of
from filled import of_cases
from mistake_cases import CASES as OTHER_CASES
from mistakes import Mistake
from model import PRECISIONS, prepare_library
from mutate import mutate
from provenance import record, write_index

ONCE = {
    "m2-gqa3-f32": (
        "attention_sink",
        "gqa_repeat_vs_tile",
        "key_position_offset",
        "kv_cache_narrow",
        "kv_cache_read_narrow",
        "kv_cache_seam",
        "kv_cache_whole_pages",
        "no_mask",
        "prefix_both_ways",
        "query_temperature",
        "rope_angles_bf16",
        "rope_attention_factor",
        "rope_double_partial",
        "rope_frequencies_bf16",
        "rope_interleaved",
        "rope_linear_scaling",
        "rope_missing_in_decode",
        "rope_restarted",
        "rope_theta_10k",
        "scale_hidden",
        "scale_missing",
        "sliding_window",
        "soft_cap",
        "values_rotated",
    ),
    "m3-gqa4-f32": (
        "bias_bf16",
        "bias_dropped",
        "bias_in_logits",
        "bias_in_weights",
        "bias_subtracted",
        "expert_never_chosen",
        "gate_bf16",
        "group_limited_choice",
        "halves_interleaved",
        "no_renorm",
        "renorm_all_experts",
        "router_bf16",
        "router_unnormed",
        "routing_weights_dropped",
        "softmax_of_chosen",
        "softmax_router",
        "sqrt_softplus_router",
        "tie_duplicate",
        "topk_k_wrong",
        "w1_w3_swapped",
        "weights_on_input",
    ),
}
"""Mistakes that both families can have, by the case that shows them: those of the router and the experts in M3."""

ELSEWHERE = {
    **{name: case for case, names in ONCE.items() for name in names},
    "expert_map_shift": "m2-f16-weights-f32",
    "index_k_from_main_k": "m3-main-index-f32",
    "kv_cache_pre_rope": "m2-gqa3-f32",
    "qk_divisor_unreplicated_k": "m2-square-f32",
    "rope_bf16_position": "m2-square-f32",
    "rope_missing": "m2-gqa3-f32",
    "softmax_bf16": "m2-gqa3-f32",
    "vision_frames_apart": "vision-video-f32",
    "video_t_not_reset": "vision-video-f32",
    "w2_transposed": "m2-square-f32",
}
"""The case of each mistake that no plain case shows, or not alone: what M3's attention rotates by, its index branch does
too, and bfloat16 in its softmax changes what is near a tie behind it."""


def main() -> None:
    """Makes them all."""
    of_cases("Makes the dumps of known mistakes.", make)


def make(golden: Path, folder: Path) -> None:
    """Writes all dumps of the cases in `golden`, and of the others, into `folder`, which is empty."""
    prepare_library()
    for case in OTHER_CASES:
        described = {"model": case.name, "semantics": case.library.semantics, "precision": PRECISIONS[case.computed]}
        write_case(case, folder / case.name, **described)
    dumps = []
    for case, name, mistake in _all():
        (folder / case).mkdir(exist_ok=True)
        place = folder / case if (folder / case / "case.json").exists() else golden / case
        file = f"{case}/{name}.safetensors"
        changed = mutate(place, name, folder / file, mistake.kept)
        print(f"{name} in {case}: {changed}")
        dumps.append(
            {
                "file": file,
                "case": case,
                "mistake": name,
                "description": mistake.description,
                "largest_change_of_logits": changed.largest,
                "changed_best_tokens": changed.best_tokens,
            }
        )
    write_index(folder, dumps)
    record(folder, "make_mistakes.py --golden fixtures/golden --out fixtures/golden-mistakes")


def _all() -> Iterator[tuple[str, str, Mistake]]:
    """Case, name and mistake; what shows elsewhere is made there only."""
    for family in FAMILIES.values():
        for name, mistake in family.mistakes.items():
            if name not in ELSEWHERE:
                yield family.cases[0].name, name, mistake
    for name, case in ELSEWHERE.items():
        yield case, name, family_of(case).mistakes[name]


if __name__ == "__main__":
    main()
