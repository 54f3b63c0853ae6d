"""Exported StableHLO, run by JAX: what the module computes."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import torchtpu

jax = pytest.importorskip("jax")
numpy = pytest.importorskip("numpy")


def in_jax(made: Any) -> Any:
    """The program as a function of JAX arrays: portable artifact and all."""
    from jax import export

    names = sorted(made.bounds)
    scope = export.symbolic_shape(",".join(names) or "1")
    symbols = dict(zip(names, scope, strict=False))

    def aval(dtype: torch.dtype, shape: tuple[int | str, ...]) -> Any:
        sizes = tuple(size if isinstance(size, int) else eval(size, {}, symbols) for size in shape)
        return jax.core.ShapedArray(sizes, numpy.dtype(str(dtype).removeprefix("torch.")))

    weights = [aval(w.dtype, tuple(w.shape)) for w in made.weights.values()]
    ins = (*weights, *(aval(a.dtype, a.shape) for a in made.inputs))
    outs = tuple(aval(a.dtype, a.shape) for a in made.outputs)
    exported = export.Exported(
        fun_name="main",
        in_tree=jax.tree_util.tree_structure((ins, {})),
        in_avals=ins,
        out_tree=jax.tree_util.tree_structure(outs),
        out_avals=outs,
        _has_named_shardings=False,
        _in_named_shardings=(None,) * len(ins),
        _out_named_shardings=(None,) * len(outs),
        in_shardings_hlo=(None,) * len(ins),
        out_shardings_hlo=(None,) * len(outs),
        nr_devices=1,
        platforms=("cpu",),
        ordered_effects=(),
        unordered_effects=(),
        disabled_safety_checks=(),
        mlir_module_serialized=made.serialize(),
        calling_convention_version=export.maximum_supported_calling_convention_version,
        module_kept_var_idx=tuple(range(len(ins))),
        uses_global_constants=bool(made.bounds),
        _get_vjp=None,
    )

    def run(*arguments: torch.Tensor) -> list[torch.Tensor]:
        with jax.enable_x64(True):
            taken = [jax.numpy.asarray(t.numpy()) for t in (*made.weights.values(), *arguments)]
            results = jax.jit(exported.call)(*taken)
        return [torch.from_numpy(numpy.array(result)) for result in results]

    return run


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(20, 16)
        self.norm, self.qkv, self.head = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 20)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.embedding(ids) + torch.arange(ids.shape[1], device=ids.device)[:, None] / ids.shape[1]
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        y = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        return self.head(F.gelu(y)), y[:, 1:].mean(1)


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).mean((2, 3))


class Mixed(nn.Module):
    """Each operation that has another form where sizes are not known."""

    def forward(self, x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
        n = x.shape[0]
        return (
            torch.cat([x, x.flip(0)]).reshape(2, n, 4).transpose(0, 1),
            F.pad(x, (0, 0, 1, 2), value=2.0)[n - 1 :],
            torch.full((n, 2), 0.5, device=x.device),
            x.gather(1, index) + x[:, :1] / n,
            x.sort(0).values[1:],
            x.index_select(1, index[0]),
            torch.where(x > x.mean(), x, 0.0).softmax(0),
            x @ x.t(),
        )


CASES = {
    "attention": (
        Attention,
        lambda n: (torch.randint(0, 20, (2, n)),),
        {"ids": {1: torch.export.Dim("n", min=3, max=64)}},
    ),
    "convolution": (Convolutional, lambda n: (torch.randn(n, 3, 8, 8),), {"x": {0: torch.export.Dim("n", max=64)}}),
    "mixed": (
        Mixed,
        lambda n: (torch.randn(n, 4), torch.randint(0, 4, (n, 2))),
        {"x": {0: (n := torch.export.Dim("n", min=3, max=64))}, "index": {0: n}},
    ),
}


@pytest.mark.parametrize("device", ["cpu", "tpu"])
@pytest.mark.parametrize("name", CASES)
def test_jax_runs_what_is_exported_at_any_size(name, device):
    torch.manual_seed(0)
    make, inputs, sizes = CASES[name]
    model = make().eval()
    made = torchtpu.export_stablehlo(model.to(device), tuple(t.to(device) for t in inputs(6)), dynamic_shapes=sizes)
    assert all(w.device.type == "cpu" for w in made.weights.values())
    ((low, high),) = made.bounds.values()
    assert 2 <= low <= 6 and high == 64
    run = in_jax(made)
    model = model.to("cpu")
    for n in (6, 3, 17):
        arguments = inputs(n)
        with torch.no_grad():
            expected = model(*arguments)
        expected = list(expected) if isinstance(expected, tuple) else [expected]
        torch.testing.assert_close(run(*arguments), expected, rtol=1e-4, atol=1e-5)


def test_jax_runs_what_is_exported_at_one_size():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).double()
    x = torch.randn(3, 4, dtype=torch.float64)
    made = torchtpu.export_stablehlo(model, (x,))
    assert made.bounds == {} and "?" not in made.text
    assert list(made.weights) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    torch.testing.assert_close(in_jax(made)(x)[0], model(x).detach(), rtol=1e-12, atol=1e-12)
    exported = torchtpu.export_stablehlo(torch.export.export(model, (x,)))
    assert exported.text == made.text


def test_an_artifact_is_four_files(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    model = nn.Linear(4, 2, dtype=torch.bfloat16)
    sizes = {"input": {0: torch.export.Dim("n", max=8)}}
    made = torchtpu.export_stablehlo(model, (torch.ones(3, 4, dtype=torch.bfloat16),), dynamic_shapes=sizes)
    made.save(tmp_path / "made")
    found = safetensors.load_file(tmp_path / "made" / "weights.safetensors")
    assert torch.equal(found["weight"], model.weight.detach()) and torch.equal(found["bias"], model.bias.detach())
    signature = json.loads((tmp_path / "made" / "signature.json").read_text())
    assert signature["weights"] == ["weight", "bias"]
    assert signature["inputs"][0]["shape"][1] == 4 and signature["inputs"][0]["dtype"] == "bfloat16"
    assert list(signature["bounds"].values()) == [[2, 8]]
    assert (tmp_path / "made" / "program.stablehlo").read_bytes()[:4] == b"ML\xefR"
    assert (tmp_path / "made" / "program.mlir").read_text() == made.text


def test_what_cannot_be_exported_says_why():
    x = torch.ones(4, 3)
    with pytest.raises(NotImplementedError, match=r"writes to running_mean.*eval"):
        torchtpu.export_stablehlo(nn.BatchNorm1d(3), (x,))
    with pytest.raises(NotImplementedError, match=r"draws random numbers.*eval"):
        torchtpu.export_stablehlo(nn.Dropout(), (x,))
    with pytest.raises(ValueError, match=r"StableHLO 0\.0\.1"):
        torchtpu.export_stablehlo(nn.ReLU(), (x,)).serialize("0.0.1")
