"""Makes operators' inputs, and what torch and transformers' modules make of them.

    python tools/oracle/make_operators.py --out fixtures/golden-operators

Needs exactly the versions in requirements.txt. Each file is what `parity op NAME FILE` reads: tensors by the operator's
names, and its numbers as tensors of one value. The folder has

    OPERATOR.safetensors          for each operator, and
    OPERATOR-CASE.safetensors     for what is special: of transformers' modules, here, else of `operator_formulas`
    provenance.json               command, versions, machine, and the SHA-256 of each file
"""

import pinned  # isort: skip
from pathlib import Path

import torch
from filled import filled
from operator_formulas import cases
from provenance import record
from safetensors.torch import save_file
from transformers import MiniMaxConfig
from transformers.models.minimax.modeling_minimax import (
    MiniMaxCache,
    MiniMaxLightningAttention,
    load_balancing_loss_func,
)

SEED = 83
HEADS, HEAD_DIM, HIDDEN = 3, 8, 20
LAYER, LAYERS, BLOCK = 1, 4, 8
PROMPT, DECODED = 21, 5
ROUTED, EXPERTS, TOP_K = 15, 6, 2


def main() -> None:
    """Makes the folder."""
    filled("Makes what operators make alone.", make)


class Watched:
    """A module of lightning attention, of which q, k, v and o are kept, one row a token."""

    def __init__(self) -> None:
        """With random weights."""
        config = MiniMaxConfig(
            hidden_size=HIDDEN,
            num_attention_heads=HEADS,
            num_key_value_heads=HEADS,
            head_dim=HEAD_DIM,
            num_hidden_layers=LAYERS,
            block_size=BLOCK,
            layer_types=["linear_attention"] * LAYERS,
        )
        self.module = MiniMaxLightningAttention(config, LAYER).eval()
        for weight in self.module.parameters():
            torch.nn.init.normal_(weight, std=HIDDEN**-0.5)
        self.kept: dict[str, list[torch.Tensor]] = {"q": [], "k": [], "v": [], "o": []}
        self.module.qkv_proj.register_forward_hook(lambda _, inputs, output: self.projected(output))
        self.module.norm.register_forward_pre_hook(lambda _, inputs: self.kept["o"].append(inputs[0][0]))

    def projected(self, qkv: torch.Tensor) -> None:
        """What the module takes as q, k and v: each head has its own three side by side."""
        heads = self.module.act_fn(qkv)[0].reshape(-1, HEADS, 3, HEAD_DIM)
        for place, name in enumerate("qkv"):
            self.kept[name].append(heads[:, :, place].reshape(-1, HEADS * HEAD_DIM))

    def tensors(self) -> dict[str, torch.Tensor]:
        """All that was kept, and the operator's numbers."""
        made = {name: torch.cat(parts).contiguous() for name, parts in self.kept.items()}
        return made | self.numbers()

    def around(self, x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        """What the whole module reads and makes, and the operator's numbers."""
        module = self.module
        weights = {"qkv": module.qkv_proj, "norm": module.norm, "gate": module.output_gate, "out": module.out_proj}
        read = {name: part.weight.detach().clone() for name, part in weights.items()}
        eps = torch.tensor(module.norm.variance_epsilon)
        return {"x": x[0].clone(), "y": y[0].clone(), **read, "eps": eps, **self.numbers()}

    @staticmethod
    def numbers() -> dict[str, torch.Tensor]:
        """The operator's numbers."""
        return {name: torch.tensor(number) for name, number in (("heads", HEADS), ("layer", LAYER), ("layers", LAYERS))}


@torch.no_grad()
def make(folder: Path) -> None:
    """Writes all files into `folder`, which is empty."""
    torch.manual_seed(SEED)
    whole, decoded = Watched(), Watched()
    x = torch.randn(1, PROMPT + DECODED, HIDDEN)
    y, _ = whole.module(x, None, None)
    save_file(whole.tensors(), folder / "lightning_attention.safetensors")
    save_file(whole.around(x, y), folder / "gated_lightning.safetensors")
    cache = MiniMaxCache()
    for first, last in [(0, PROMPT), *((token, token + 1) for token in range(PROMPT, PROMPT + DECODED))]:
        decoded.module(x[:, first:last], None, None, past_key_values=cache)
    save_file(decoded.tensors(), folder / "lightning_attention-decoded.safetensors")

    logits = tuple(2 * torch.randn(ROUTED, EXPERTS) for _ in range(LAYERS))
    top_k = torch.tensor(TOP_K)
    loss = load_balancing_loss_func(logits, EXPERTS, TOP_K)
    save_file({"z": torch.cat(logits), "loss": loss, "top_k": top_k}, folder / "load_balancing.safetensors")
    mask = (torch.arange(ROUTED) >= 4)[None]
    loss = load_balancing_loss_func(logits, EXPERTS, TOP_K, mask.long())
    masked = {"z": torch.cat(logits), "mask": mask[0].repeat(LAYERS), "loss": loss, "top_k": top_k}
    save_file(masked, folder / "load_balancing-masked.safetensors")
    for name, tensors in cases():
        contiguous = {of: tensor.contiguous() for of, tensor in tensors.items()}
        save_file(contiguous, folder / f"{name}.safetensors")
    record(folder, "make_operators.py --out fixtures/golden-operators")


if __name__ == "__main__":
    main()
