"""Real sentences: what modules of the standard library say of themselves."""

import ast
import re
import sysconfig
from pathlib import Path

_SENTENCE = re.compile(r"[A-Z][^`~:]{20,90}\.")


def module_summaries(limit: int) -> list[tuple[str, str]]:
    """Pairs of a module's name and its docstring's opening, where that is one whole sentence."""
    found: list[tuple[str, str]] = []
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("[a-z]*.py")):
        docstring = ast.get_docstring(ast.parse(path.read_bytes())) or ""
        opening = " ".join(docstring.split("\n\n")[0].split())
        if _SENTENCE.fullmatch(opening):
            found.append((path.stem, opening))
    return found[:limit]
