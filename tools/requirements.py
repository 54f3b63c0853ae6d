"""Prints what pyproject.toml requires, one a line: `build`, `run`, or the name of an extra."""

import pathlib
import sys
import tomllib

pyproject = tomllib.loads((pathlib.Path(__file__).resolve().parent.parent / "pyproject.toml").read_text())
lists = {
    "build": pyproject["build-system"]["requires"],
    "run": pyproject["project"]["dependencies"],
    **pyproject["project"]["optional-dependencies"],
}
print(*(requirement for name in sys.argv[1:] for requirement in lists[name]), sep="\n")
