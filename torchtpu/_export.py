"""Modules as portable StableHLO: a program that other software can load, and the weights that it takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from torchtpu import _C
from torchtpu._dynamic import Buckets
from torchtpu._graph import Recorder, move_from_host

# Where a size has no upper bound, up to this one the program is known to be right.
_LARGEST = 1 << 13

_SAFETENSORS = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.uint16: "U16",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int32: "I32",
    torch.uint32: "U32",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.int64: "I64",
    torch.uint64: "U64",
    torch.complex64: "C64",
}


@dataclass(frozen=True)
class Array:
    """A parameter or result of the program.

    Attributes:
        name: Of a weight, its name in the module; else the name in the exported graph.
        dtype: The element type.
        shape: Numbers, and expressions such as "s27" or "s27 + 1" in symbols.
    """

    name: str
    dtype: torch.dtype
    shape: tuple[int | str, ...]


@dataclass(frozen=True)
class StableHLO:
    """What `export_stablehlo` makes.

    Attributes:
        text: The module, its function `main`. Parameters: `weights` in their order, then `inputs`.
        weights: Parameters, buffers and constants of the module by name, on the host.
        inputs: The tensors that a call is given.
        outputs: The results.
        bounds: The smallest and the largest value of each symbol that the program is for.
    """

    text: str
    weights: dict[str, torch.Tensor]
    inputs: list[Array]
    outputs: list[Array]
    bounds: dict[str, tuple[int, int]]

    def serialize(self, version: str | None = None) -> bytes:
        """The program as a portable artifact: MLIR bytecode in StableHLO's versioned dialect.

        Args:
            version: Of StableHLO ("1.8.0"), the oldest that is to read it. By default the one of about 12 weeks before
                the installed jaxlib.

        Raises:
            ModuleNotFoundError: jaxlib, which has StableHLO's serialisation, is not installed.
            ValueError: The program has something that this version has not.
        """
        try:
            from jaxlib import _jax
            from jaxlib.mlir.dialects import stablehlo
        except ImportError as error:
            raise ModuleNotFoundError(
                "torchtpu.export_stablehlo: a portable artifact needs jaxlib. Install it with: "
                "pip install torchtpu[export]"
            ) from error
        if version is None:
            weeks = stablehlo.StablehloCompatibilityRequirement.WEEK_12
            version = stablehlo.get_version_from_compatibility_requirement(weeks)
        try:
            return _jax.mlir.serialize_portable_artifact(self.text, version, True)
        except Exception as error:  # of jaxlib's own type
            raise ValueError(f"StableHLO {version}: {error}".split("\n")[0]) from error

    def save(self, folder: str | Path, *, version: str | None = None) -> None:
        """Writes `program.stablehlo` (see `serialize`), `program.mlir` (text), `weights.safetensors` and
        `signature.json` into `folder`, which is made.
        """
        artifact = self.serialize(version)
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "program.stablehlo").write_bytes(artifact)
        (folder / "program.mlir").write_text(self.text)
        _write_safetensors(folder / "weights.safetensors", self.weights)
        signature = {
            "weights": list(self.weights),
            "inputs": [_described(array) for array in self.inputs],
            "outputs": [_described(array) for array in self.outputs],
            "bounds": self.bounds,
        }
        (folder / "signature.json").write_text(json.dumps(signature, indent=1))


def export_stablehlo(
    module: torch.nn.Module | ExportedProgram,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> StableHLO:
    """Exports `module(*args, **kwargs)` as StableHLO. Nothing runs on a device.

    Args:
        module: On any device; or what `torch.export.export` has made, without the other arguments.
        args, kwargs: Examples. Numbers among them become part of the program.
        dynamic_shapes: As of `torch.export.export`: which sizes may change, with `torch.export.Dim(min=, max=)` as
            their bounds. Their dimensions are "?" in the program. Sizes of 0 and 1 are not part of a range.

    Raises:
        NotImplementedError: The module draws random numbers, writes to buffers (call `.eval()`), needs the host, or is
            not one program for all sizes; and where `torch.export` cannot trace it, its own exception.
    """
    if isinstance(module, ExportedProgram):
        program = module
    else:
        program = torch.export.export(module, tuple(args), dict(kwargs or {}), dynamic_shapes=dynamic_shapes)
    program = program.run_decompositions({})
    graph = program.graph_module
    weights = _weights(program)
    placeholders = graph.graph.find_nodes(op="placeholder")
    taken = [node for node in placeholders if isinstance(node.meta.get("val"), torch.Tensor)]
    (output,) = graph.graph.find_nodes(op="output")
    outputs = [_array(node) for node in output.args[0]]
    move_from_host(graph, 0)
    recorder = Recorder(graph)
    buckets = Buckets.of(graph, must=True)

    def at(described: Sequence[Any]) -> tuple[list[torch.Tensor], Any]:
        with torch.no_grad():
            arguments = [_argument(node, there) for node, there in zip(placeholders, described, strict=True)]

        def run() -> list[torch.Tensor]:
            with torch.no_grad():
                return recorder.record(arguments)

        return [argument for argument in arguments if isinstance(argument, torch.Tensor)], run

    bounds = {}
    if buckets is None:
        tensors, run = at([None] * len(placeholders))
        text, _ = _C._trace_dynamic(lambda _: (tensors, run), [], [], [])
    else:
        position = {placeholders.index(node): i for i, node in enumerate(taken)}
        symbols = buckets.symbols
        if any(symbol.dimension is None for symbol in symbols):
            raise NotImplementedError("torchtpu.export_stablehlo: a number that changes is an argument")
        low, high = [s.low for s in symbols], [max(s.low, min(s.high, _LARGEST)) for s in symbols]
        sources = [(position[s.argument], s.dimension, s.offset) for s in symbols]
        text, low = _C._trace_dynamic(lambda point: at(buckets.describe(point)), sources, low, high)
        bounds = {str(s.symbol): (a, b) for s, a, b in zip(symbols, low, high, strict=True)}
    inputs = [_array(node) for node in taken[len(weights) :]]
    return StableHLO(text, weights, inputs, outputs, bounds)


def _weights(program: ExportedProgram) -> dict[str, torch.Tensor]:
    for spec in program.graph_signature.output_specs:
        if spec.kind is not OutputKind.USER_OUTPUT:
            raise NotImplementedError(
                f"torchtpu.export_stablehlo: the module writes to {spec.target}, and a program has results only. "
                "Call .eval() on it."
            )
    weights = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            continue
        found = program.state_dict.get(spec.target, program.constants.get(spec.target))
        if not isinstance(found, torch.Tensor):
            raise NotImplementedError(f"torchtpu.export_stablehlo: {spec.target} is no tensor")
        weights[spec.target] = found.detach().cpu().contiguous()
    return weights


def _array(node: Any) -> Array:
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor):
        raise NotImplementedError(f"torchtpu.export_stablehlo: expected tensors as results, found {node}")
    return Array(node.name, value.dtype, tuple(size if isinstance(size, int) else str(size) for size in value.shape))


def _argument(node: torch.fx.Node, described: Any) -> Any:
    """A tensor without data; what is not a tensor is part of the program."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return value
    shape = tuple(value.shape) if described is None else described[0]
    return torch.empty(shape, dtype=value.dtype, device="tpu")


def _described(array: Array) -> dict[str, Any]:
    return {"name": array.name, "dtype": str(array.dtype).removeprefix("torch."), "shape": list(array.shape)}


def _write_safetensors(file: Path, tensors: dict[str, torch.Tensor]) -> None:
    """The format of huggingface/safetensors: the header's length in 8 bytes, the header, the data."""
    header, offset, parts = {}, 0, []
    for name, tensor in tensors.items():
        data = tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
        header[name] = {
            "dtype": _SAFETENSORS[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + len(data)],
        }
        offset += len(data)
        parts.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as out:
        out.write(len(text).to_bytes(8, "little"))
        out.write(text)
        for part in parts:
            out.write(part)
