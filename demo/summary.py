"""What has to hold, and whether it does."""

from dataclasses import dataclass

from demo.results import First, Second
from demo.settings import Settings

LARGEST_DIFFERENCE = 1e-4
HELD_OUT_LOSS = 2.2


@dataclass(frozen=True)
class Check:
    what: str
    found: str
    wanted: str
    holds: bool


def check(first: First, second: Second, settings: Settings, quick: bool) -> list[Check]:
    """A quick run trains too briefly for its losses to be judged."""
    start, end = settings.checkpoint_step, settings.checkpoint_step + len(second.losses)
    expected = first.losses[start:end]
    equal = sum(map(float.__eq__, expected, second.losses))
    resumes = bool(second.losses) and second.losses == expected and second.random_numbers == first.random_numbers
    held_out = first.held_out[-1][1]
    checks = [
        Check(
            "sentence embeddings, largest difference from the CPU's",
            f"{first.largest_difference:.1e}",
            f"at most {LARGEST_DIFFERENCE:.0e}",
            first.largest_difference <= LARGEST_DIFFERENCE,
        ),
        Check(
            f"losses of steps {start + 1} to {end}, resumed in a new process",
            f"{equal} of {len(second.losses)} the same",
            "all, to the last digit",
            resumes,
        ),
    ]
    if not quick:
        checks += [
            Check(
                "held-out loss, nats per byte",
                f"{held_out:.3f}",
                f"under {HELD_OUT_LOSS}",
                held_out < HELD_OUT_LOSS,
            ),
            Check(
                "beside a byte-bigram model's",
                f"{held_out:.3f}",
                f"under {first.bigram:.3f}",
                held_out < first.bigram,
            ),
        ]
    return checks


def table(checks: list[Check]) -> str:
    rows = [("", "found", "wanted", "")]
    rows += [(c.what, c.found, c.wanted, "ok" if c.holds else "FAILED") for c in checks]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    lines.insert(1, "─" * max(map(len, lines)))
    return "\n".join(lines)
