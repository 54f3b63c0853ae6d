"""Every ```python block of README.md and docs/ runs, and every relative link leads somewhere.

The blocks of a page run in order, in one process. A block marked ```python notest needs what a test has not: a TPU or a
network.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python[ \t]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#\s]+)[^)]*\)")


def names(pages: list[Path]) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in pages]


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text())


WITH_CODE = [page for page in PAGES if blocks(page)]


@pytest.mark.parametrize("page", WITH_CODE, ids=names(WITH_CODE))
def test_code_runs(page, tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    # Line numbers as on the page, so that a traceback leads to it.
    text = page.read_text()
    program = "".join("\n" * (text[: m.start(1)].count("\n") - above) + m[1] for m, above in placed(text))
    file = tmp_path / page.name.replace(".md", ".py")
    file.write_text(program)
    done = subprocess.run(
        [sys.executable, str(file)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{page.relative_to(ROOT)}, lines as there:\n{done.stderr}"


def placed(text: str) -> list[tuple[re.Match[str], int]]:
    """Each block, and the number of lines that the blocks before it end at."""
    found = list(BLOCK.finditer(text))
    ends = [0, *(text[: m.end(1)].count("\n") for m in found)]
    return list(zip(found, ends, strict=False))


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_links_lead_somewhere(page):
    missing = [link for link in LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert not missing
