"""`python -m torchtpu COMMAND`: commands by name, each a function of its own module that takes the arguments left."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module

# Name, module with a function `main(arguments) -> exit status`, what it does.
COMMANDS = (
    ("cache", "torchtpu._cache_command", "the compile cache: stats, ls, prune, clear, warm"),
    ("explain", "torchtpu._explain", "run a script, and say why its operations were flushed and what was compiled"),
)


def main(arguments: list[str]) -> int:
    for name, module, _ in COMMANDS:
        if arguments[:1] == [name]:
            command: Callable[[list[str]], int] = import_module(module).main
            return command(arguments[1:])
    asked_for_help = arguments[:1] in (["-h"], ["--help"])
    out = sys.stdout if asked_for_help else sys.stderr
    if arguments and not asked_for_help:
        print(f"torchtpu: expected a command, found {arguments[0]!r}.", file=out)
    print("usage: python -m torchtpu COMMAND ...\n", file=out)
    for name, _, what in COMMANDS:
        print(f"  {name:10}{what}", file=out)
    return 0 if asked_for_help else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
