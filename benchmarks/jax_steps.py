"""The training steps of `benchmarks.compile` as JAX programs. Run by it, in an environment with JAX.

Reads a number of steps a line, `MODEL COUNT`, and answers with the microseconds that one took. It imports nothing of
this repository. The mathematics are those of PyTorch's modules: exact GELU, layer norm with eps 1e-5, AdamW.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Tree = Any
EPS, LAYERS, HEADS = 1e-5, 6, 4


def linear(key: Any, inputs: int, outputs: int) -> Tree:
    bound = 1 / math.sqrt(inputs)
    w, b = jax.random.split(key)
    return {
        "w": jax.random.uniform(w, (outputs, inputs), jnp.float32, -bound, bound),
        "b": jax.random.uniform(b, (outputs,), jnp.float32, -bound, bound),
    }


def norm(width: int) -> Tree:
    return {"w": jnp.ones(width), "b": jnp.zeros(width)}


def apply_linear(p: Tree, x: Any) -> Any:
    return x @ p["w"].T + p["b"]


def apply_norm(p: Tree, x: Any) -> Any:
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + EPS) * p["w"] + p["b"]


def gelu(x: Any) -> Any:
    return jax.nn.gelu(x, approximate=False)


def make_mlp(width: int) -> Tree:
    keys = jax.random.split(jax.random.key(0), 2 * LAYERS)
    return [
        {
            "up": linear(keys[2 * i], width, 4 * width),
            "down": linear(keys[2 * i + 1], 4 * width, width),
            "n": norm(width),
        }
        for i in range(LAYERS)
    ]


def mlp(params: Tree, x: Any) -> Any:
    for p in params:
        x = apply_norm(p["n"], apply_linear(p["down"], gelu(apply_linear(p["up"], x))))
    return x


def make_transformer(width: int) -> Tree:
    keys = jax.random.split(jax.random.key(0), 4 * LAYERS)
    return [
        {
            "n1": norm(width),
            "n2": norm(width),
            "qkv": linear(keys[4 * i], width, 3 * width),
            "out": linear(keys[4 * i + 1], width, width),
            "up": linear(keys[4 * i + 2], width, 4 * width),
            "down": linear(keys[4 * i + 3], 4 * width, width),
        }
        for i in range(LAYERS)
    ]


def transformer(params: Tree, x: Any) -> Any:
    batch, tokens, width = x.shape
    size = width // HEADS
    for p in params:
        qkv = apply_linear(p["qkv"], apply_norm(p["n1"], x)).reshape(batch, tokens, 3, HEADS, size)
        q, k, v = qkv.transpose(2, 0, 3, 1, 4)
        weights = jax.nn.softmax((q @ k.swapaxes(-1, -2)) * size**-0.5, -1)
        x = x + apply_linear(p["out"], (weights @ v).swapaxes(1, 2).reshape(batch, tokens, width))
        x = x + apply_linear(p["down"], gelu(apply_linear(p["up"], apply_norm(p["n2"], x))))
    return x


MODELS: dict[str, tuple[Callable[[], Tree], Callable[[Tree, Any], Any], tuple[int, ...]]] = {
    "mlp-small": (lambda: make_mlp(32), mlp, (8, 32)),
    "transformer-small": (lambda: make_transformer(32), transformer, (2, 16, 32)),
    "mlp": (lambda: make_mlp(256), mlp, (32, 256)),
    "transformer": (lambda: make_transformer(256), transformer, (4, 64, 256)),
}


def adamw(p: Any, g: Any, m: Any, v: Any, t: Any) -> tuple[Any, Any, Any]:
    """Loshchilov and Hutter, "Decoupled Weight Decay Regularization", with torch.optim.AdamW's defaults."""
    rate, decay, beta1, beta2, eps = 1e-3, 1e-2, 0.9, 0.999, 1e-8
    m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
    denominator = jnp.sqrt(v) / jnp.sqrt(1 - beta2**t) + eps
    return p * (1 - rate * decay) - rate / (1 - beta1**t) * m / denominator, m, v


def prepare(name: str) -> Callable[[], Any]:
    make, model, dims = MODELS[name]
    x = jax.random.normal(jax.random.key(1), dims)

    def step(params: Tree, m: Tree, v: Tree, t: Any) -> Any:
        loss, gradients = jax.value_and_grad(lambda p: jnp.mean((model(p, x) - x) ** 2))(params)
        leaves, structure = jax.tree.flatten(params)
        others = (jax.tree.leaves(tree) for tree in (gradients, m, v))
        new = [adamw(*of_leaf, t + 1) for of_leaf in zip(leaves, *others, strict=True)]
        params, m, v = (jax.tree.unflatten(structure, part) for part in zip(*new, strict=True))
        return params, m, v, t + 1, loss

    params = make()
    zeros = [jax.tree.map(jnp.zeros_like, params) for _ in range(2)]
    state: Any = (params, *zeros, jnp.float32(0))
    compiled = jax.jit(step, donate_argnums=(0, 1, 2, 3))

    def run() -> Any:
        nonlocal state
        *state, loss = compiled(*state)
        return loss

    return run


def main() -> None:
    steps: dict[str, Callable[[], Any]] = {}
    print("ready", flush=True)
    for line in sys.stdin:
        name, count = line.split()
        if name not in steps:
            steps[name] = prepare(name)
        begin = time.perf_counter()
        for _ in range(int(count)):
            result = steps[name]()
        jax.block_until_ready(result)
        print((time.perf_counter() - begin) / int(count) * 1e6, flush=True)


if __name__ == "__main__":
    main()
