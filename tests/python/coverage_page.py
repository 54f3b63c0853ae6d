"""Writes docs/coverage.md from the table of gaps: `python tests/python/coverage_page.py`. test_opinfo.py checks it."""

import json
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "coverage.md"
INTRODUCTION = """\
# What does not match the CPU yet

PyTorch's OpInfo database has samples of every operation. `make sweep` runs three samples of each operation in each type
of data, and float32's gradients, on the device and on the CPU, and compares; nothing that ran on the host counts. An
answer also passes if it is as near to the float64 answer as the CPU's; sums of half types mostly are nearer.

This page is written by `tests/python/coverage_page.py` from `tests/python/opinfo_gaps.json`, which may only shrink.
"""


def gaps() -> dict[str, str]:
    """Why a case, "operation type kind", does not pass."""
    return json.loads((HERE / "opinfo_gaps.json").read_text())


def page(cases: list[str], gaps: dict[str, str]) -> str:
    lines = [INTRODUCTION, "| | cases | of them not passing |", "|---|---|---|"]
    for kind in ("forward", "gradient"):
        total = [case for case in cases if case.endswith(kind)]
        missing = [case for case in gaps if case.endswith(kind)]
        lines.append(f"| {kind} | {len(total)} | {len(missing)} ({len(missing) / len(total):.1%}) |")
    lines += ["", "| reason | operations | types, and gradients |", "|---|---|---|"]
    reasons: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for case, reason in gaps.items():
        name, type_name, kind = case.split()
        reasons[reason].append((name, type_name if kind == "forward" else "gradient"))
    for reason, found in sorted(reasons.items(), key=lambda item: (-len(item[1]), item[0])):
        operations, types = (", ".join(dict.fromkeys(column)) for column in zip(*found, strict=True))
        lines.append(f"| {reason} | `{operations.replace(', ', '`, `')}` | {types} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    import test_opinfo

    PAGE.write_text(page(test_opinfo.CASES, gaps()))


if __name__ == "__main__":
    main()
