"""Processes of one distributed job, each a rank, that run functions of the tests: started once, used for many."""

import contextlib
import importlib
import multiprocessing
import os
import traceback
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

TIMEOUT_S = 240


def _serve(rank: int, size: int, port: int, backend: str | None, timeout_s: float, pipe: Connection) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=60))
    dist.init_process_group(backend, store=store, rank=rank, world_size=size, timeout=timedelta(seconds=timeout_s))
    pipe.send((True, None))
    while True:
        job = pipe.recv()
        if job is None:
            break
        module, name, arguments = job
        try:
            torch.manual_seed(0)
            result = getattr(importlib.import_module(module), name)(rank, *arguments)
            pipe.send((True, result))
        except BaseException:
            pipe.send((False, traceback.format_exc()))
    if dist.is_initialized():
        dist.destroy_process_group()


class Ranks:
    """`size` processes with a process group among them; the store is this process's, so it survives theirs."""

    def __init__(self, size: int, backend: str | None = "tpu", timeout_s: float = 60, **environment: str) -> None:
        import torch.distributed as dist

        self.size = size
        self._store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        context = multiprocessing.get_context("spawn")
        before = dict(os.environ)
        self._pipes: list[Connection] = []
        self.processes = []
        try:
            for rank in range(size):
                os.environ.update(
                    {"LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(size), "OMP_NUM_THREADS": "1", **environment}
                )
                ours, theirs = context.Pipe()
                process = context.Process(
                    target=_serve, args=(rank, size, self._store.port, backend, timeout_s, theirs), daemon=True
                )
                process.start()
                self.processes.append(process)
                self._pipes.append(ours)
        finally:
            os.environ.clear()
            os.environ.update(before)
        self._results()

    def _results(self) -> list[Any]:
        """What each rank answers; the first error of any."""
        results, errors = [], []
        for rank, pipe in enumerate(self._pipes):
            if not pipe.poll(TIMEOUT_S):
                errors.append(f"rank {rank} does not answer")
                continue
            try:
                fine, result = pipe.recv()
            except EOFError:
                errors.append(f"rank {rank} ended")
                continue
            results.append(result)
            if not fine:
                errors.append(f"rank {rank}: {result}")
        assert not errors, "\n".join(errors)
        return results

    def run(self, function: Callable[..., Any], *arguments: Any, last_dies: bool = False) -> list[Any]:
        """`function(rank, *arguments)` in every rank: what each returned. The last may be expected to die of it."""
        for pipe in self._pipes:
            pipe.send((function.__module__, function.__name__, arguments))
        if last_dies:
            lost = self._pipes.pop()
            assert lost.poll(TIMEOUT_S)
            with contextlib.suppress(EOFError):
                raise AssertionError(f"the last rank lives: {lost.recv()}")
            self.processes.pop().join()
        return self._results()

    def close(self) -> None:
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.send(None)
        for process in self.processes:
            process.join(30)
            if process.is_alive():
                process.kill()
