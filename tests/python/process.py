"""Runs a snippet in a fresh interpreter, for what depends on the environment or on the order of imports."""

import os
import subprocess
import sys
import textwrap


def run(code: str, **environment: str) -> str:
    """The snippet's standard output; fails with its error output."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
