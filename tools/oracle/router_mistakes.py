"""Known mistakes in how routers score, choose and weigh, and in what they and the experts read."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from mistakes import LAYERS, Inject, Mistake, everywhere, expert_blocks, forwards, text_model, weights
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

WeighedExperts = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]
"""The router's step from logits, correction bias and k to weights and experts."""

GROUPS, CHOSEN_GROUPS = 4, 2
"""Groups of experts, and those that are chosen from."""


def router_mistakes(router: Callable[[WeighedExperts], Inject]) -> dict[str, Mistake]:
    """Those of a family; `router` replaces the step of its routers."""
    return {
        "bias_in_logits": Mistake(
            "the correction bias is added to the logits, before the sigmoid", router(_biased_logits)
        ),
        "bias_subtracted": Mistake(
            "the correction bias is taken off the scores", router(lambda z, b, k: weighed(z, z.sigmoid() - b, k))
        ),
        "softmax_of_chosen": Mistake(
            "experts are chosen as released, and weighed by the softmax of their logits", router(_softmax_of_chosen)
        ),
        "sqrt_softplus_router": Mistake(
            "scores are the root of softplus",
            router(lambda z, b, k: weighed(z, functional.softplus(z).sqrt() + b, k, functional.softplus(z).sqrt())),
        ),
        "group_limited_choice": Mistake(
            f"experts are chosen from the best {CHOSEN_GROUPS} of {GROUPS} groups, each as good as its two best",
            router(_of_groups),
        ),
        "expert_never_chosen": Mistake(
            "the last expert is never chosen", router(lambda z, b, k: weighed(z, (z.sigmoid() + b)[:, :-1], k))
        ),
        "routing_weights_dropped": Mistake("routing weights are left out", router(_ones)),
        "router_bf16": Mistake(
            "the router's input, weight and logits are rounded to bfloat16",
            _router_bf16(router(lambda z, b, k: weighed(z.bfloat16().float(), z.bfloat16().float().sigmoid() + b, k))),
            (*LAYERS, "*.mlp.gate"),
        ),
        "router_unnormed": Mistake(
            "the router reads the residual stream, not its norm",
            lambda model: _unnormed(model, lambda block: block.gate),
        ),
        "weights_on_input": Mistake(
            "routing weights are multiplied into the experts' inputs",
            lambda model: forwards([block.experts for block in expert_blocks(model)], _weighed_inputs),
        ),
    }


def shared_unnormed(model: PreTrainedModel) -> AbstractContextManager[object]:
    """The shared expert reads what stands before the norm."""
    return _unnormed(model, lambda block: block.shared_experts)


def weighed(logits: Tensor, choice: Tensor, k: int, scores: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The released step, with experts chosen by `choice`, and weighed by `scores`, if these are others."""
    experts = choice.topk(k, sorted=False).indices
    chosen = (logits.sigmoid() if scores is None else scores).gather(1, experts)
    return chosen / chosen.sum(-1, keepdim=True), experts


def _biased_logits(logits: Tensor, bias: Tensor, k: int) -> tuple[Tensor, Tensor]:
    scores = (logits + bias).sigmoid()
    return weighed(logits, scores, k, scores)


def _softmax_of_chosen(logits: Tensor, bias: Tensor, k: int) -> tuple[Tensor, Tensor]:
    _, experts = weighed(logits, logits.sigmoid() + bias, k)
    return logits.gather(1, experts).softmax(-1), experts


def _of_groups(logits: Tensor, bias: Tensor, k: int) -> tuple[Tensor, Tensor]:
    choice = logits.sigmoid() + bias
    grouped = choice.unflatten(-1, (GROUPS, -1))
    groups = grouped.topk(2).values.sum(-1).topk(CHOSEN_GROUPS).indices
    is_out = torch.ones_like(grouped[..., 0]).scatter(1, groups, 0).bool()
    return weighed(logits, grouped.masked_fill(is_out[..., None], float("-inf")).flatten(-2), k)



def _ones(logits: Tensor, bias: Tensor, k: int) -> tuple[Tensor, Tensor]:
    share, experts = weighed(logits, logits.sigmoid() + bias, k)
    return torch.ones_like(share), experts


def _router_bf16(rounded: Inject) -> Inject:
    """Rounds input and weight; `rounded` does so with the logits."""

    def inject(model: PreTrainedModel) -> AbstractContextManager[object]:
        gates = [block.gate for block in expert_blocks(model)]
        of_input = [_before(gate, lambda x: x.bfloat16().float()) for gate in gates]
        # What a router shows are its logits as it computes them; these are rounded, too.
        shown = [_behind(gate, lambda z: z.bfloat16().float()) for gate in gates]
        of_weight = weights(gates, "weight", lambda w: w.bfloat16().float())
        return everywhere((*of_input, *shown, of_weight, rounded(model)))

    return inject


@contextmanager
def _before(module: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Changes a module's first argument."""
    hook = module.register_forward_pre_hook(lambda _, arguments: (change(arguments[0]), *arguments[1:]))
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def _behind(module: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Changes the first of what a module returns."""
    hook = module.register_forward_hook(lambda _, __, returned: (change(returned[0]), *returned[1:]))
    try:
        yield
    finally:
        hook.remove()


def _unnormed(model: PreTrainedModel, part: Callable[[nn.Module], nn.Module]) -> AbstractContextManager[object]:
    """A part of each block reads what the norm before the block was given."""
    layers = [layer for layer in text_model(model).layers if hasattr(layer.mlp, "experts")]
    changes = []
    for layer in layers:
        given: list[Tensor] = []

        def remember(x: Tensor, given: list[Tensor] = given) -> Tensor:
            given[:] = [x]
            return x

        def exchange(x: Tensor, given: list[Tensor] = given) -> Tensor:
            return given[0].reshape(x.shape)

        changes += [_before(layer.post_attention_layernorm, remember), _before(part(layer.mlp), exchange)]
    return everywhere(changes)


def _weighed_inputs(experts: nn.Module) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    right = experts.forward

    def wrong(x: Tensor, chosen: Tensor, share: Tensor) -> Tensor:
        slots = range(chosen.shape[1])
        of_slot = (right(x * share[:, [i]], chosen[:, [i]], torch.ones_like(share[:, [i]])) for i in slots)
        return sum(of_slot)

    return wrong
