"""Ahead-of-time checks: compile a function for a TPU that this machine does not have.

Needs libtpu (``pip install torchtpu[tpu]``), but no TPU: the compiler works from a topology's name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torchtpu import _C
from torchtpu._registration import plugin_file


@dataclass(frozen=True)
class Compiled:
    """What the compiler says of one program on one topology.

    Attributes:
        topology: The name asked for, as "v5e:2x2".
        platform: The compiler's version.
        cost: XLA's cost analysis: "flops", "bytes accessed" and more, per execution of one device's program.
        memory: Bytes on one device: "argument", "output", "temp", "alias", "generated_code", "peak".
        stablehlo: The program that was compiled.
        hlo: The optimised HLO.
    """

    topology: str
    platform: str
    cost: dict[str, Any]
    memory: dict[str, int]
    stablehlo: str
    hlo: str


def trace(fn: Callable[..., Any], args: Sequence[Any] = ()) -> str:
    """The StableHLO of ``fn(*args)`` as one module; nothing runs and no tensor changes.

    Every tpu tensor that ``fn`` reads becomes a parameter. Reading data on the host inside ``fn`` (``item()``,
    ``if x > 0``) raises NotImplementedError.
    """
    arguments = [x for x in pytree.tree_leaves(list(args)) if isinstance(x, torch.Tensor)]

    def run() -> list[torch.Tensor]:
        return [x for x in pytree.tree_leaves(fn(*args)) if isinstance(x, torch.Tensor)]

    return _C._trace(arguments, run)


def compile(fn: Callable[..., Any], args: Sequence[Any] = (), *, topology: str = "v5e:2x2") -> Compiled:
    """Compiles ``fn(*args)`` with libtpu for ``topology`` ("v5e:2x2", "tpu7x:2x2x1", ...), without hardware.

    Raises:
        RuntimeError: The compiler's own message when it refuses the program, or when the topology is not known.
        ModuleNotFoundError: libtpu is not installed.
    """
    plugin = plugin_file("libtpu", "libtpu.so")
    if not plugin:
        raise ModuleNotFoundError("torchtpu.aot: libtpu is not installed. Install it with: pip install torchtpu[tpu]")
    text = trace(fn, args)
    return Compiled(topology=topology, stablehlo=text, **_C._compile_for(text=text, topology=topology, plugin=plugin))
