"""The loss curve."""

from pathlib import Path

from matplotlib.figure import Figure

from demo.results import First, Second

_INK, _TRAIN, _HELD_OUT, _RESUMED = "#333333", "#4c78a8", "#e45756", "#2a9d6f"


def draw(path: Path, first: First, second: Second, checkpoint_step: int) -> None:
    steps = range(1, len(first.losses) + 1)
    resumed = range(checkpoint_step + 1, checkpoint_step + 1 + len(second.losses))
    last = first.held_out[-1][1]
    figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
    axes = figure.subplots()
    axes.plot(steps, first.losses, color=_TRAIN, linewidth=0.7, alpha=0.35)
    axes.plot(steps, _smooth(first.losses), color=_TRAIN, linewidth=1.8, label="train, smoothed")
    axes.plot(
        resumed,
        second.losses,
        "o",
        color=_RESUMED,
        markersize=2.5,
        label=f"resumed at step {checkpoint_step} in a new process",
    )
    axes.plot(
        *zip(*first.held_out, strict=True),
        "o-",
        color=_HELD_OUT,
        markersize=5,
        linewidth=1.2,
        label=f"held-out, ends at {last:.2f}",
    )
    axes.axhline(
        first.bigram, color=_INK, linestyle="--", linewidth=1.2, label=f"byte bigram, held-out: {first.bigram:.2f}"
    )
    axes.set(xlabel="step", ylabel="loss, nats per byte", xlim=(0, len(first.losses) * 1.01))
    axes.set_title(f"Llama, {first.parameters / 1e6:.2f} M parameters, on Python's sources", loc="left", color=_INK)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(path)


def _smooth(losses: list[float], weight: float = 0.9) -> list[float]:
    """An exponential average, without the pull of its start."""
    average, scale, smoothed = 0.0, 0.0, []
    for loss in losses:
        average = weight * average + (1 - weight) * loss
        scale = weight * scale + (1 - weight)
        smoothed.append(average / scale)
    return smoothed
