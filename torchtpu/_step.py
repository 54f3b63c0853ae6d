"""A whole training step as one program: forward, backward and optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torchtpu import _C

Loss = Callable[..., torch.Tensor]


class CompiledStep:
    """What `compile_step` returns. Called with a batch, it trains on it and returns the loss."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, loss_fn: Loss) -> None:
        self._model = model
        self._optimizer = optimizer
        self._loss_fn = loss_fn
        self._graphs: dict[Any, _C._CompiledGraph] = {}
        self._rates: list[tuple[float, torch.Tensor]] = []  # per parameter group
        modules = [model, loss_fn] if isinstance(loss_fn, torch.nn.Module) else [model]
        self._tensors = [t for module in modules for t in (*module.parameters(), *module.buffers())]
        self._started = False

    def __call__(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        batch, structure = pytree.tree_flatten((args, kwargs))
        for leaf in batch:
            if isinstance(leaf, torch.Tensor) and leaf.device.type != "tpu":
                raise ValueError(
                    f"torchtpu.compile_step: expected a batch on tpu, found a tensor on {leaf.device}. "
                    "Move it with .to('tpu')."
                )
        if not self._started:
            return self._first(batch, structure)
        self._refresh_rates()
        state = self._state()
        static = (
            structure,
            self._model.training,
            torch.is_autocast_enabled("tpu"),
            tuple(leaf for leaf in batch if not isinstance(leaf, torch.Tensor)),
            self._numbers(),
            tuple(t.requires_grad for t in self._tensors),
        )
        graph = self._graphs.get(static)
        if graph is None:
            graph = self._graphs[static] = self._graph(batch, structure)
        tensors = [leaf for leaf in batch if isinstance(leaf, torch.Tensor)]
        (loss,) = graph([*tensors, *(rate for _, rate in self._rates), *state])
        torch.autograd.graph.increment_version(self._tensors)
        return loss

    def _first(self, batch: list[Any], structure: pytree.TreeSpec) -> torch.Tensor:
        """Op by op: the optimizer makes its state. It is kept on the device, where a program can count its steps."""
        for group in self._optimizer.param_groups:
            if "fused" in group:
                group.update(fused=True, foreach=False)
            elif "capturable" in group:
                group["capturable"] = True
            else:
                raise NotImplementedError(
                    f"torchtpu.compile_step: {type(self._optimizer).__name__} has neither 'fused' nor 'capturable', so "
                    "the program would fix its learning rate. Use one of torch.optim that has, or torch.compile."
                )
        for parameter, state in self._optimizer.state.items():
            for name, value in state.items():
                if isinstance(value, torch.Tensor) and value.device.type == "cpu":
                    state[name] = value.to(parameter.device)
        loss = self._step(batch, structure)
        for state in self._optimizer.state.values():
            for name, value in state.items():
                if isinstance(value, (int, float)) or (isinstance(value, torch.Tensor) and value.device.type == "cpu"):
                    raise NotImplementedError(
                        f"torchtpu.compile_step: {type(self._optimizer).__name__} keeps {name!r} on the host, where a "
                        "program cannot change it. Use an optimizer of torch.optim that has 'fused' or 'capturable'."
                    )
        self._started = True
        return loss

    def _step(self, batch: list[Any], structure: pytree.TreeSpec) -> torch.Tensor:
        args, kwargs = pytree.tree_unflatten(batch, structure)
        self._optimizer.zero_grad()
        loss = self._loss_fn(self._model, *args, **kwargs)
        loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad()
        return loss.detach()

    def _graph(self, batch: list[Any], structure: pytree.TreeSpec) -> _C._CompiledGraph:
        def record(arguments: list[Any]) -> list[torch.Tensor]:
            tensors = iter(arguments)
            leaves = [next(tensors) if isinstance(leaf, torch.Tensor) else leaf for leaf in batch]
            try:
                # Autograd's own threads would not be recorded.
                with torch.enable_grad(), torch.autograd.set_multithreading_enabled(False), self._rates_as_tensors():
                    return [self._step(leaves, structure)]
            finally:
                self._optimizer.zero_grad()

        batch = [leaf if not isinstance(leaf, torch.Tensor) else torch.empty(0) for leaf in batch]
        return _C._CompiledGraph(
            name="compiled step", device=-1, stand_ins="arguments", host_results=[], function=record
        )

    def _state(self) -> Iterator[torch.Tensor]:
        yield from self._tensors
        for state in self._optimizer.state.values():
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    yield value

    def _numbers(self) -> tuple[Any, ...]:
        """Those of the optimizer that the program is made for."""
        return tuple(
            (name, value)
            for group in self._optimizer.param_groups
            for name, value in group.items()
            if name not in ("params", "lr", "initial_lr")
        )

    def _refresh_rates(self) -> None:
        groups = self._optimizer.param_groups
        if not self._rates:
            self._rates = [(float(g["lr"]), torch.tensor(float(g["lr"]), device="tpu")) for g in groups]
        for i, (group, (known, rate)) in enumerate(zip(groups, self._rates, strict=True)):
            if known != group["lr"]:
                self._rates[i] = (float(group["lr"]), rate.fill_(float(group["lr"])))

    @contextmanager
    def _rates_as_tensors(self) -> Iterator[None]:
        groups = self._optimizer.param_groups
        before = [group["lr"] for group in groups]
        for group, (_, rate) in zip(groups, self._rates, strict=True):
            group["lr"] = rate
        try:
            yield
        finally:
            for group, rate in zip(groups, before, strict=True):
                group["lr"] = rate


def compile_step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, loss_fn: Loss) -> CompiledStep:
    """Makes one program of a training step: forward, backward and the optimizer's update.

    Args:
        model: On `tpu`. Parameters, buffers and the optimizer's state are updated in place, in their own memory.
        optimizer: Any of `torch.optim` that has `fused` or `capturable`. It is switched to it; `lr` may change from
            step to step, as schedulers do, without another program.
        loss_fn: Called as `loss_fn(model, *batch)`; gives the loss. It is Python that runs only while a program is
            recorded: once for each new shape of the batch.

    Returns:
        A function: `loss = step(*batch)`. Its first call runs op by op, which makes the optimizer's state. Gradients
        are not kept.
    """
    return CompiledStep(model, optimizer, loss_fn)
