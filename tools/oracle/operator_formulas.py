"""Operators alone, from the documents' equations, in torch's own functions or, where it has none, step by step.

Each case is a dictionary of what `parity op` reads: inputs, numbers, and the outputs that torch makes of them in f32.
"""

from collections.abc import Iterator
from math import prod

import torch
import torch.nn.functional as F

Tensors = dict[str, torch.Tensor]


def draw(*shape: int) -> torch.Tensor:
    """Normal values."""
    return torch.randn(*shape)


def number(value: float) -> torch.Tensor:
    """A number of an operator."""
    return torch.tensor(value)


def cases() -> Iterator[tuple[str, Tensors]]:
    """All of them, each with the operator's name and behind a dash what is special."""
    yield from elementwise()
    yield from norms()
    yield from products()
    yield from attentions()
    yield from blocks()
    yield from routing()
    yield from vision()
    yield from training()
    yield from documents()


def elementwise() -> Iterator[tuple[str, Tensors]]:
    """Activations and sums."""
    g, u = 3 * draw(5, 24), 3 * draw(5, 24)
    yield "swiglu", {"g": g, "u": u, "a": F.silu(g) * u}
    g, u = 6 * draw(5, 24), 6 * draw(5, 24)
    gate, up = g.clamp(max=7.0), u.clamp(-7.0, 7.0)
    yield "swiglu_oai", {"g": g, "u": u, "a": gate * torch.sigmoid(1.702 * gate) * (up + 1)}
    yield "gelu", {"x": g, "a": F.gelu(g)}
    yield "gelu-tanh", {"x": g, "a": F.gelu(g, approximate="tanh"), "tanh": number(1)}
    yield "residual", {"x": g, "f": u, "y": g + u}
    parts = draw(4, 5, 24)
    yield "all_reduce", {"p": parts, "y": parts.sum(0)}


def norms() -> Iterator[tuple[str, Tensors]]:
    """Norms."""
    x, f, w, b = draw(6, 40), draw(6, 40), 1 + 0.1 * draw(40), 0.1 * draw(40)
    yield "rms_norm", {"x": x, "w": w, "y": F.rms_norm(x, (40,), w, 1e-6)}
    yield "rms_norm-one_plus", {"x": x, "w": b, "y": F.rms_norm(x, (40,), 1 + b, 1e-6), "one_plus": number(1)}
    yield "add_rms_norm", {"x": x, "f": f, "w": w, "s": x + f, "y": F.rms_norm(x + f, (40,), w, 1e-6)}
    yield "layer_norm", {"x": x, "w": w, "b": b, "y": F.layer_norm(x, (40,), w, b, 1e-5)}
    yield "qk_norm", {"x": x, "w": w, "y": F.rms_norm(x, (40,), w, 1e-6), "head_dim": number(8)}
    yield "sharded_norm", {"x": x, "w": w, "y": F.rms_norm(x, (40,), w, 1e-6), "ranks": number(4)}
    heads = F.rms_norm(x.reshape(6, 5, 8), (8,), w[:8], 1e-6).reshape(6, 40)
    yield "qk_norm-per_head", {"x": x, "w": w[:8].clone(), "y": heads, "head_dim": number(8), "per_head": number(1)}


def products() -> Iterator[tuple[str, Tensors]]:
    """Products with matrices."""
    x, w, b = draw(5, 48), draw(10, 48) / 7, draw(10)
    yield "linear", {"x": x, "w": w, "y": F.linear(x, w)}
    yield "linear_bias", {"x": x, "w": w, "b": b, "y": F.linear(x, w, b)}
    t = torch.tensor([3, 0, 9, 3])
    yield "embedding", {"t": t, "table": w, "y": F.embedding(t, w)}
    w1, w3, w2 = draw(20, 48) / 7, draw(20, 48) / 7, draw(48, 20) / 4
    y = F.linear(F.silu(F.linear(x, w1)) * F.linear(x, w3), w2)
    yield "dense_ffn", {"x": x, "w1": w1, "w3": w3, "w2": w2, "y": y}


def rotated(x: torch.Tensor, rotary: int, theta: float, first: int) -> torch.Tensor:
    """Heads [n, heads, d] of which the first channels turn."""
    frequencies = theta ** (-torch.arange(0, rotary, 2, dtype=torch.float64) / rotary)
    angles = (first + torch.arange(len(x), dtype=torch.float64))[:, None, None] * frequencies
    cos, sin = angles.cos().float(), angles.sin().float()
    a, b, rest = x.split([rotary // 2, rotary // 2, x.shape[-1] - rotary], -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin, rest], -1)


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Attention [n, heads, d] of fewer heads of keys and values, one row a token."""
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    o = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    return o[0].transpose(0, 1).flatten(1)


def attentions() -> Iterator[tuple[str, Tensors]]:
    """Rotation, cache and attention."""
    n, kept, heads, groups, d = 7, 4, 4, 2, 8
    numbers = {"heads": number(heads), "kv_heads": number(groups)}
    turn = {"rotary_dim": number(6), "theta": number(1e4), "first": number(5)}
    x = draw(n, heads, d)
    turned = rotated(x, 6, 1e4, 5).flatten(1)
    yield "rope", {"x": x.flatten(1), "y": turned, "head_dim": number(d), **turn}
    x, w, u = draw(n, (heads + 2 * groups) * d), 1 + 0.1 * draw(heads * d), 1 + 0.1 * draw(groups * d)
    q, k, v = x.split([heads * d, groups * d, groups * d], -1)
    q, k = F.rms_norm(q, q.shape[1:], w, 1e-6), F.rms_norm(k, k.shape[1:], u, 1e-6)
    q, k = (rotated(y.reshape(n, -1, d), 6, 1e4, 5).flatten(1) for y in (q, k))
    yield "qk_norm_rope", {"x": x, "w": w, "u": u, "q": q, "k": k, "v": v.clone(), **numbers, **turn}
    q, k, v = draw(n, heads, d), draw(n + kept, groups, d), draw(n + kept, groups, d)
    back = torch.arange(kept, n + kept)[:, None] - torch.arange(n + kept)
    flat = {"q": q.flatten(1), "k": k.flatten(1), "v": v.flatten(1)}
    yield "attention", {**flat, "o": attended(q, k, v, back >= 0), **numbers}
    within = (back >= 0) & (back < 3)
    yield "attention-window", {**flat, "o": attended(q, k, v, within), **numbers, "window": number(3)}
    both = {"keys": flat["k"], "values": flat["v"]}
    parts = [x.split([kept, n]) for x in (flat["k"], flat["v"])]
    (kept_k, new_k), (kept_v, new_v) = [[part.clone() for part in split] for split in parts]
    yield "kv_cache", {"k": new_k, "v": new_v, "kept_k": kept_k, "kept_v": kept_v, **both}


def blocks() -> Iterator[tuple[str, Tensors]]:
    """Blocks of keys: chosen, and attended to."""
    n, heads, groups, d, block, count = 11, 4, 2, 8, 3, 2
    q, k = draw(n, groups, d), draw(n, d)
    scores = torch.einsum("ngd,sd->ngs", q, k)
    causal = torch.arange(n)[:, None] >= torch.arange(n)
    scores = scores.masked_fill(~causal[:, None], -torch.inf)
    m = F.pad(scores, (0, -n % block), value=-torch.inf).unflatten(-1, (-1, block)).amax(-1)
    own = F.one_hot(torch.arange(n) // block, m.shape[-1]).bool()[:, None]
    values, chosen = m.masked_fill(own, torch.inf).topk(count, -1)
    chosen = chosen.masked_fill(values == -torch.inf, -1).flatten(0, 1)
    sizes = {"block": number(block), "top_k": number(count)}
    made = {"m": m.flatten(0, 1), "blocks": chosen}
    yield "indexer", {"q": q.flatten(1), "k": k, **made, "heads": number(groups), **sizes}
    q, k, v = draw(n, heads, d), draw(n, groups, d), draw(n, groups, d)
    of_key = torch.arange(n) // block
    seen = (chosen.reshape(n, groups, count, 1) == of_key).any(2) & causal[:, None]
    mask = seen.transpose(0, 1).repeat_interleave(heads // groups, 0)
    flat = {"q": q.flatten(1), "k": k.flatten(1), "v": v.flatten(1), "blocks": chosen}
    numbers = {"heads": number(heads), "kv_heads": number(groups), "block": number(block)}
    yield "block_sparse_attention", {**flat, "o": attended(q, k, v, mask), **numbers}


def routing() -> Iterator[tuple[str, Tensors]]:
    """Experts, their sum, and the next token."""
    x, gate, bias, k = draw(6, 32), draw(9, 32) / 6, 0.1 * draw(9), 3
    scores = torch.sigmoid(F.linear(x, gate))
    experts = (scores + bias).topk(k).indices
    weights = scores.gather(-1, experts)
    weights = weights / weights.sum(-1, keepdim=True)
    made = {"scores": scores, "experts": experts, "weights": weights, "top_k": number(k)}
    yield "router", {"x": x, "gate": gate, "bias": bias, **made}
    e, h = draw(6, k, 20), draw(6, 20)
    y = torch.einsum("nk,nkd->nd", weights, e)
    shared = {"h": h, "z": 2.5 * y + h, "scale": number(2.5)}
    yield "moe", {"e": e, "w": weights, "experts": experts, "y": y, **shared}
    z = 2 * draw(5, 30)
    yield "sampling", {"z": z, "token": z.argmax(-1)}
    kept = torch.full_like(z, -torch.inf).scatter(-1, *reversed(z.topk(12)))
    sorted_, order = (kept / 0.8).softmax(-1).sort(descending=True)
    mass = sorted_.where(sorted_.cumsum(-1) - sorted_ < 0.7, 0)
    p = torch.zeros_like(z).scatter(-1, order, mass / mass.sum(-1, keepdim=True))
    numbers = {"temperature": number(0.8), "top_k": number(12), "top_p": number(0.7)}
    yield "sampling-top_p", {"z": z, "token": z.argmax(-1), "p": p, **numbers}
    e, h = draw(4, 10), draw(4, 10)
    yield "mtp", {"e": e, "h": h, "y": torch.cat([e * (torch.arange(4) > 0)[:, None], h], -1)}


def vision() -> Iterator[tuple[str, Tensors]]:
    """The vision tower's own."""
    channels, frames, pixels, heads, d, side = 3, 2, 4, 2, 14, 2
    grids = torch.tensor([[1, 4, 2], [2, 2, 4]])
    sizes = grids.prod(-1).tolist()
    n = sum(sizes)
    x, w = draw(n, channels * frames * pixels**2), draw(6, channels * frames * pixels**2) / 10
    kernel = (channels, frames, pixels, pixels)
    y = F.conv3d(x.reshape(n, *kernel), w.reshape(6, *kernel)).flatten(1)
    yield "patch_embedding", {"x": x, "w": w, "y": y, "pixels": number(pixels)}
    axis = 2 * (d // 3 // 2)
    frequencies = 1e4 ** (-torch.arange(0, axis, 2, dtype=torch.float64) / axis)
    angles = torch.cat([of_patches(*grid, side) for grid in grids.tolist()])[..., None] * frequencies
    angles = torch.cat([angles.flatten(1)] * 2, -1)
    table = {"cos": angles.cos().float(), "sin": angles.sin().float()}
    yield "axial_rope", {"grids": grids, **table, "head_dim": number(d)}
    q, k, v = draw(n, heads, d), draw(n, heads, d), draw(n, heads, d)
    segments = zip(*(part.split(sizes) for part in (q, k, v)), strict=True)
    o = torch.cat([attended(*segment, None) for segment in segments])
    flat = {"q": q.flatten(1), "k": k.flatten(1), "v": v.flatten(1), "grids": grids}
    yield "vision_attention", {**flat, "o": o, "heads": number(heads)}
    merged = q.flatten(1).reshape(n // side**2, -1)
    yield "patch_merge", {"x": flat["q"], "grids": grids, "y": merged.clone()}
    mask, rows, f = torch.tensor([0, 1, 1, 0, 1]).bool(), draw(5, 6), draw(3, 6)
    yield "masked_scatter", {"x": rows, "mask": mask, "f": f, "y": rows.masked_scatter(mask[:, None], f)}


def of_patches(t: int, h: int, w: int, side: int) -> torch.Tensor:
    """Time, height and width of a grid's patches, square by square."""
    places = torch.stack(torch.meshgrid(*(torch.arange(size) for size in (t, h, w)), indexing="ij"), -1)
    squares = places.reshape(t, h // side, side, w // side, side, 3).transpose(2, 3)
    return squares.reshape(prod((t, h, w)), 3).double()


def training() -> Iterator[tuple[str, Tensors]]:
    """What training adds."""
    new, old, a = -draw(40).abs(), -draw(40).abs(), draw(40)
    ratio = (new - old).exp()
    clipped = ratio.clamp(0.8, 1.3) * a
    given = {"new": new, "old": old, "advantages": a, "above": number(0.3)}
    yield "policy_gradient", {**given, "c": clipped}
    yield "policy_gradient-ppo", {**given, "c": (ratio * a).where(ratio * a <= clipped, 0), "ppo": number(1)}
    rewards = draw(8)
    yield "advantages", {"rewards": rewards, "advantages": (rewards - rewards.mean()) / rewards.std(correction=0)}
    b, loads = draw(6), torch.tensor([4, 9, 0, 5, 5, 7])
    updated = b + 1e-3 * torch.sign(loads.double().mean() - loads).float()
    yield "updated_bias", {"b": b, "loads": loads, "updated": updated, "rate": number(1e-3)}
    x = draw(5, 12)
    noise = torch.empty_like(x).uniform_(0.9, 1.1)
    yield "router_jitter", {"x": x, "noise": noise, "y": x * noise, "eps": number(0.1)}


def documents() -> Iterator[tuple[str, Tensors]]:
    """What the documents alone have: hybrid attention, and document 003's norm, router and experts."""
    n, heads, groups, d, local, window = 9, 6, 3, 8, 4, 3
    q, k, v = draw(n, heads, d), draw(n, groups, d), draw(n, groups, d)
    back = torch.arange(n)[:, None] - torch.arange(n)
    is_local = (torch.arange(heads) < local)[:, None, None]
    seen = (back >= 0) & (~is_local | (back < window))
    flat = {"q": q.flatten(1), "k": k.flatten(1), "v": v.flatten(1), "o": attended(q, k, v, seen)}
    numbers = {"heads": heads, "kv_heads": groups, "local": local, "window": window}
    yield "hybrid_attention", flat | {name: number(value) for name, value in numbers.items()}
    # So small that where 1e-8 stands can be seen.
    x, w = 1e-6 * draw(6, 5, 8), 1 + 0.1 * draw(8)
    y = w * x / (x.square().mean(-1, keepdim=True).sqrt() + 1e-8)
    norm = {"x": x.flatten(1), "w": w, "y": y.flatten(1), "head_dim": number(8)}
    yield "qk_norm-outside", {**norm, "per_head": number(1), "outside": number(1)}
    x, gate = draw(6, 32), draw(9, 32) / 6
    scores = F.linear(x, gate)
    values, experts = scores.topk(2)
    made = {"scores": scores, "experts": experts, "weights": values.softmax(-1), "top_k": number(2)}
    yield "router-softmax", {"x": x, "gate": gate, **made, "softmax": number(1)}
    g = 3 * draw(5, 24)
    yield "swiglu-nongated", {"g": g, "a": F.silu(g)}
    w1, w2 = draw(20, 32) / 6, draw(32, 20) / 4
    yield "dense_ffn-nongated", {"x": x, "w1": w1, "w2": w2, "y": F.linear(F.silu(F.linear(x, w1)), w2)}
    f, x_factor, f_factor = draw(6, 32), number(3.5565588), number(0.75)
    factors = {"x_factor": x_factor, "f_factor": f_factor}
    yield "residual-factors", {"x": x, "f": f, "y": x_factor * x + f_factor * f, **factors}
