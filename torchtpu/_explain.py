"""Why ops were run when they were, and what was compiled for them.

`with torchtpu.explain() as report: ...` watches a part of a program; `python -m torchtpu explain script.py` all of one.
"""

import os
import runpy
import sys
import sysconfig
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

import torch

from torchtpu import _C, cache

_COSTLIEST = 5
_MANY_COMPILES = 3  # more than so many programs for one op at one line are worth a word

_ADVICE = {
    "read": "the program reads a value (item(), cpu(), bool(), print): read it less often, or after the loop",
    "synchronize": "the program waits for the device: leave synchronize() out where nothing is measured",
    "event": "an event marks this place: record fewer of them",
    "copy": "data goes to another device: copy more at a time",
    "size": "the ops themselves say that a program ends here; nothing to change",
    "memory": "what was gathered would keep too much memory: smaller batches, or activation checkpointing",
    "idle": "the device had nothing to do: prepare the data ahead, as a DataLoader with workers does",
    "mode": "the mode changed",
    "collective": "a collective sends what was computed; nothing to change",
    "submit": "strict mode runs each op by itself: the fuse mode makes one program of many",
}


@dataclass(frozen=True)
class Flush:
    """One flush: ops that were handed to the device together."""

    reason: str  # a key of the advice above
    line: str  # the user's line that the flush happened at; "" in autograd's threads
    first_line: str  # that of the first op
    ops: int
    how: str  # "hit", "compile", "compiling", "first sight", "one op", "nothing wanted", "failed"
    program: int  # hash of the ops and their edges
    first_op: str
    last_op: str
    host_us: float  # microseconds until the device's queue had it
    wait_us: float  # microseconds that the program then waited for the result


@dataclass(frozen=True)
class Compile:
    """One program that was made, for an op or for several."""

    name: str
    line: str
    ops: int
    program: int
    inputs: str  # types
    results: str  # of a fused program: how many of its ops' results it gives


@dataclass(frozen=True)
class Break:
    """A place where `torch.compile` left compiled code, or where a graph was split."""

    reason: str
    count: int


@dataclass
class Report:
    """What happened under `explain`; complete once the block is left. `str()` makes it a table."""

    flushes: list[Flush] = field(default_factory=list)
    compiles: list[Compile] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds that what was new took, over all threads: "trace" (PyTorch's meta kernels), "decompose", "emit"
    (StableHLO), "compile" (XLA), "load" (from the compile cache)."""
    breaks: list[Break] = field(default_factory=list)

    def costliest(self) -> list[str]:
        """The five reasons that cost most host time, dearest first, each with what to change."""
        cost: dict[tuple[str, str], list[Flush]] = defaultdict(list)
        for flush in self.flushes:
            cost[flush.reason, flush.line].append(flush)
        dearest = sorted(cost.items(), key=lambda item: -sum(f.host_us + f.wait_us for f in item[1]))
        return [
            f"{sum(f.host_us + f.wait_us for f in flushes) / 1e3:9.2f} ms  {len(flushes):5} x {reason} at "
            f"{_short(line)}, {sum(f.ops for f in flushes)} ops: {_ADVICE[reason]}"
            for (reason, line), flushes in dearest[:_COSTLIEST]
        ]

    def recompilations(self) -> list[str]:
        """Ops and fused programs that one line needed more than three programs for, and what differed between them."""
        groups: dict[tuple[str, str], list[Compile]] = defaultdict(list)
        for made in self.compiles:
            groups[made.name, made.line].append(made)
        return [
            f"{len(made)} programs for {name} at {_short(line)}: {_difference(made)}"
            for (name, line), made in groups.items()
            if len(made) > _MANY_COMPILES
        ]

    def __str__(self) -> str:
        lines = [f"{'reason':12}{'line':32}{'ops':>6}  {'program':14}{'host us':>9}{'wait us':>10}  first ... last op"]
        for flush, count in _runs(self.flushes):
            times = f" x {count}" if count > 1 else ""
            lines.append(
                f"{flush.reason:12}{_short(flush.line):32}{flush.ops:6}  {flush.how:14}{flush.host_us:9.1f}"
                f"{flush.wait_us:10.1f}  {flush.first_op} ... {flush.last_op}{times}"
            )
        lines += ["", f"{len(self.flushes)} flushes, {len(self.compiles)} programs made. The costliest reasons:"]
        lines += self.costliest() or ["none"]
        spent = ", ".join(f"{phase} {seconds:.2f} s" for phase, seconds in self.phases.items())
        lines += ["", f"What was new took, over all threads: {spent}."]
        if repeated := self.recompilations():
            lines += ["", "Compiled again and again:", *repeated]
        if self.breaks:
            lines += ["", f"torch.compile: {sum(b.count for b in self.breaks)} breaks, where eager mode takes over:"]
            lines += [f"{b.count:5} x {b.reason}" for b in self.breaks]
        return "\n".join(lines)


def _short(line: str) -> str:
    if not line:
        return "(autograd)"
    file, number = line.rsplit(":", 1)
    return f"{os.path.basename(file)}:{number}"


def _runs(flushes: list[Flush]) -> Iterator[tuple[Flush, int]]:
    """Neighbours that differ in their times only, as one: the first, and how many."""

    def kind(flush: Flush) -> tuple:
        return flush.reason, flush.line, flush.how, flush.program

    begin = 0
    for end in range(1, len(flushes) + 1):
        if end == len(flushes) or kind(flushes[end]) != kind(flushes[begin]):
            yield flushes[begin], end - begin
            begin = end


def _difference(made: list[Compile]) -> str:
    """What tells the last two apart."""
    before, after = made[-2:]
    if before.inputs != after.inputs:
        old, new = before.inputs.split(", "), after.inputs.split(", ")
        if len(old) != len(new):
            return f"{len(old)} inputs, then {len(new)}"
        a, b = next((a, b) for a, b in zip(old, new, strict=True) if a != b)
        what = "dtypes" if a.split("[")[0] != b.split("[")[0] else "shapes"
        return f"{what} differ: {a}, then {b}"
    if before.program == after.program:
        return f"the live set differs: {before.results} results were still wanted, then {after.results}"
    return "an attribute differs: a number that is part of the program, as a dimension, a size or a flag is"


def _phases() -> dict[str, float]:
    stats = cache.stats()
    return {**_C._phase_seconds(), "compile": stats.compile_seconds, "load": stats.load_seconds}


def _breaks() -> Counter[str]:
    """Why Dynamo, and our part of it, have left compiled code so far; empty while neither is loaded."""
    counts: Counter[str] = Counter()
    if dynamo := sys.modules.get("torch._dynamo.utils"):
        for broken in dynamo.graph_break_reasons:
            place = f" at {broken.user_stack[-1].filename}:{broken.user_stack[-1].lineno}" if broken.user_stack else ""
            counts[broken.reason.split("\n")[0] + place] += 1
    if graph := sys.modules.get("torchtpu._graph"):
        counts.update(graph.splits)
    if dynamic := sys.modules.get("torchtpu._dynamic"):
        counts.update({f"one program a size: {reason}": count for reason, count in dynamic.exact.items()})
    return counts


@contextmanager
def explain(file: TextIO | None = None) -> Iterator[Report]:
    """Collects why ops were flushed, and what was compiled, while the block runs.

    Args:
        file: Where the table is printed at the end. None: nowhere; `print(report)` shows it.

    Yields:
        The `Report`, filled when the block is left. Watching costs some microseconds an op. Blocks do not nest: an
        inner one takes what belongs to it.
    """
    _C._take_flushes()
    _C._take_compiles()
    _C._explain(True)
    breaks = _breaks()
    report = Report()
    before = _phases()
    try:
        yield report
    finally:
        _C._explain(False)
        report.flushes += [Flush(**record) for record in _C._take_flushes()]
        report.compiles += [Compile(**record) for record in _C._take_compiles()]
        report.phases |= {phase: seconds - before[phase] for phase, seconds in _phases().items()}
        report.breaks += [Break(reason, count) for reason, count in (_breaks() - breaks).items()]
        if file is not None:
            print(report, file=file)


def main(arguments: list[str]) -> int:
    """`python -m torchtpu explain script.py [arguments]`: runs the script and prints the table to standard error."""
    if not arguments:
        print("python -m torchtpu explain: expected a script and its arguments, found none", file=sys.stderr)
        return 2
    sys.argv = arguments
    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
    with explain(sys.stderr):
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


_C._set_library_folders(
    [
        os.path.dirname(torch.__file__) + os.sep,
        os.path.dirname(__file__) + os.sep,
        sysconfig.get_path("stdlib") + os.sep,
    ]
)
