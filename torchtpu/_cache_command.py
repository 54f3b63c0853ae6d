"""`python -m torchtpu cache`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

from torchtpu import _C, cache


def _size(text: str) -> int:
    size = _C._cache_parse_bytes(text)
    if size is None:
        raise argparse.ArgumentTypeError(f"expected a size such as 500M or 4G, found {text!r}")
    return size


def _readable(size_bytes: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.1f} GiB"


def _ago(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def _stats(_: argparse.Namespace) -> int:
    entries = cache.entries()
    print(f"directory       {cache.directory()}")
    print(f"shared          {_C._cache_shared_url() or '-'}")
    print(f"programs        {len(entries)}")
    size = _readable(sum(e.size_bytes for e in entries))
    print(f"size            {size} of at most {_readable(_C._cache_max_bytes())}")
    print(f"\nby all processes that have ended:\n{cache.totals()}")
    return 0


def _ls(arguments: argparse.Namespace) -> int:
    now = time.time()
    for entry in cache.entries():
        print(
            f"{entry.key}  {_readable(entry.size_bytes):>10}  compiled in {entry.compile_seconds:7.3f} s  "
            f"used {_ago(now - entry.used_s):>6} ago  {entry.name}"
        )
        if arguments.long:
            print("".join(f"    {line}\n" for line in entry.fields.splitlines()))
    return 0


def _report(pruned: cache.Pruned) -> int:
    print(
        f"removed {pruned.files} programs, {_readable(pruned.size_bytes)}; {_readable(pruned.kept_bytes)} are left "
        f"in {cache.directory()}"
    )
    return 0


def _prune(arguments: argparse.Namespace) -> int:
    return _report(cache.prune(arguments.max_bytes))


def _clear(_: argparse.Namespace) -> int:
    return _report(cache.clear())


def _warm(arguments: argparse.Namespace) -> int:
    before = {entry.key for entry in cache.entries()}
    start = time.perf_counter()
    done = subprocess.run([sys.executable, *arguments.program], env=os.environ)
    seconds = time.perf_counter() - start
    added = [entry for entry in cache.entries() if entry.key not in before]
    print(
        f"warm: {len(added)} programs added, {_readable(sum(e.size_bytes for e in added))}, which took "
        f"{sum(e.compile_seconds for e in added):.1f} s to compile; the run took {seconds:.1f} s",
        file=sys.stderr,
    )
    return done.returncode


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m torchtpu cache", description="The compile cache of this machine.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, run: object, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(run=run)
        return sub

    command("stats", _stats, "where it is, how large, and what it has done so far")
    command("ls", _ls, "its programs, the last used first").add_argument(
        "-l", "--long", action="store_true", help="also what each key is made of"
    )
    command("prune", _prune, "remove what was used longest ago").add_argument(
        "--max-bytes", type=_size, help="keep at most this much, such as 500M (default: TORCHTPU_CACHE_MAX_BYTES)"
    )
    command("clear", _clear, "remove all programs")
    command("warm", _warm, "run a Python program, so that the next run compiles nothing").add_argument(
        "program", nargs=argparse.REMAINDER, help="script.py and its arguments, or -m module and its arguments"
    )
    options = parser.parse_args(arguments)
    if options.run is _warm and not options.program:
        parser.error("warm: expected a program to run, such as `warm train.py --steps 2`")
    if cache.directory() is None:
        print("No host tier: TORCHTPU_CACHE=0, or a directory that cannot be used (see above).", file=sys.stderr)
        return 1
    return options.run(options)
