"""Writes docs/upstream_tests.md from runs of the instruments' run_upstream.py: `python tools/upstream_page.py OUT...`.

Each OUT is a run's directory. Of a test that several runs have, the last counts. Without arguments the page is written
from the counts that are kept, docs/upstream_tests.json. Why a test is not expected to pass stands in
tests/upstream_skips.json: a reason, and the tests (without their data type) that it covers.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "upstream_tests.md"
COUNTS = ROOT / "docs" / "upstream_tests.json"
SKIPS = ROOT / "tests" / "upstream_skips.json"
DTYPE = re.compile(r"(_(b?float|complex|u?int|bool|bfloat|quint|qint)\d*(_e\dm\d\w*)?)+$")
PASSED = ("pass", "xfail")

INTRODUCTION = """\
# PyTorch's own tests

PyTorch's device-generic test files, of release 2.12.1, run on `tpu` with PyTorch 2.13. A test passes only if nothing
ran on the host. "skipped" are those that PyTorch itself skips on a device like this (those for CUDA or the CPU only,
slow ones). "listed" are those of our own list below, each with its reason; "open" are the others that do not pass. They
are counted within "executed", so the share is of all that PyTorch does not skip.

This page is written by `tools/upstream_page.py` from the runs; the list is `tests/upstream_skips.json`.
"""


def without_dtype(test: str) -> str:
    return DTYPE.sub("", test)


def records(run: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """By file, by test: what the instrument wrote. A run that was ended has only its logs."""
    found: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for log in sorted((run / "logs").glob("*.part")):
        name = re.sub(r"(\.\d+)?\.part$", "", log.name).replace("__", "/")
        for line in log.read_text().splitlines():
            record = json.loads(line)
            found[name][record["id"]] = record
    return found


def reasons() -> dict[str, str]:
    return {test: why for why, tests in json.loads(SKIPS.read_text()).items() for test in tests}


def count(runs: list[Path]) -> dict[str, Any]:
    """What the page says of each file."""
    files: dict[str, dict[str, dict[str, Any]]] = defaultdict(dict)
    for run in runs:
        for name, tests in records(run).items():
            files[name] |= tests
    known, counts = reasons(), {}
    for name, tests in sorted(files.items()):
        outcomes = Counter("pass" if t["o"] in PASSED else t["o"] for t in tests.values())
        missed = {without_dtype(t["id"]) for t in tests.values() if t["o"] not in (*PASSED, "skip")}
        listed = sum(1 for t in tests.values() if t["o"] not in (*PASSED, "skip") and without_dtype(t["id"]) in known)
        counts[name] = {
            "executed": sum(outcomes.values()) - outcomes["skip"],
            "passed": outcomes["pass"],
            "listed": listed,
            "crashed": outcomes["crash"],
            "skipped": outcomes["skip"],
            "open": sorted(missed - known.keys()),
        }
    return counts


def page(counts: dict[str, Any], note: str) -> str:
    lines = [INTRODUCTION, note, "", "| file | executed | passed | | listed | open | crashed | skipped |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    total: Counter[str] = Counter()

    def row(name: str, c: dict[str, int]) -> str:
        share = f"{c['passed'] / max(1, c['executed']):.1%}"
        rest = c["executed"] - c["passed"] - c["listed"]
        return (
            f"| {name} | {c['executed']} | {c['passed']} | {share} | {c['listed']} | {rest} | {c['crashed']} "
            f"| {c['skipped']} |"
        )

    for name, c in counts.items():
        lines.append(row(f"`{name}`", c))
        total.update({key: value for key, value in c.items() if isinstance(value, int)})
    lines.append(row("all", total))
    listed = json.loads(SKIPS.read_text())
    entries = sum(len(tests) for tests in listed.values())
    lines += ["", f"## The list: {entries} entries", "", "| reason | tests |", "|---|---|"]
    lines += [f"| {why} | `{'`, `'.join(sorted(tests))}` |" for why, tests in sorted(listed.items())]
    lines += ["", "## Open", ""]
    lines += [f"- `{name}`: `{'`, `'.join(c['open'])}`" for name, c in counts.items() if c["open"]]
    return "\n".join(lines) + "\n"


def main() -> None:
    kept = json.loads(COUNTS.read_text()) if COUNTS.exists() else {"note": "", "files": {}}
    if len(sys.argv) > 1:
        kept["files"] |= count([Path(run) for run in sys.argv[1:]])
        COUNTS.write_text(json.dumps(kept, indent=1) + "\n")
    PAGE.write_text(page(kept["files"], kept["note"]))


if __name__ == "__main__":
    main()
