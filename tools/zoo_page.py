"""Writes docs/models.md from runs of the instruments' hf_zoo.py: ``python tools/zoo_page.py RUN.json [RERUN.json]``.

Of an entry that several files have, the last counts.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "models.md"
LIBRARIES = {"hf": "transformers", "timm": "timm", "diffusers": "diffusers"}
PHASES = {"fwd": "forward", "train": "training step", "gen": "greedy generation"}

# What stands in the way, found by comparing with float64 on the CPU and with the CPU's random numbers on both sides.
RANDOM = "random numbers drawn inside the model; with the CPU's numbers it matches"
KINK = "ill-conditioned: weights changed by 1e-7 to 1e-6 of their size change the CPU's own gradients as much"
CPU_OFF = "the CPU's float32 is as far from float64 as the device's"
TIES = "equal scores in top-k: the CPU breaks the tie otherwise"
NOISE = "the instrument names it as noise: it differs on a stand-in for a device, too"
UNKNOWN = "not explained; batch norm over few values makes such gradients sensitive"
REASONS = {
    RANDOM: """cvt diffusion_gemma dinov3_vit DiTTransformer2DModel dpt eomt eomt_dinov3
        groupvit groupvit_vision_model mask2former phimoe
        qwen3_asr switch_transformers UNet3DConditionModel univnet vit_mae vits wavtokenizer""",
    KINK: "bat_resnext26ts cspresnet50 mnasnet_100 mobilenet_v2 resnetv2_50 selecsls42b skresnet18 textnet",
    CPU_OFF: """cspdarknet53 densenet121 dla34 efficientnetv2_s ese_vovnet19b_dw hgnet_v2 hrnet_w18_small inception_v3
        levit oneformer pp_ocrv5_mobile_det pp_ocrv5_server_rec rexnet_100 timm_wrapper vovnet39a xception41""",
    TIES: "deepseek_v32",
    NOISE: "colqwen2 d_fine deimv2 fun_asr_nano pp_doclayout_v3 pp_doclayout_v4 rt_detr rt_detr_v2",
}

INTRODUCTION = """\
# Models that run

Tiny random copies of every model type of transformers, and models of timm and diffusers, in float32 in strict mode, on
the device and on the CPU. A model counts if its results, its loss and gradients, or its tokens match the CPU's, and
only if nothing ran on the host. Types that do not run on the CPU are left out.

This page is written by `tools/zoo_page.py` from the runs.
"""


def reason(name: str) -> str:
    return next((why for why, names in REASONS.items() if name in names.split()), UNKNOWN)


def page(results: dict[str, dict[str, Any]]) -> str:
    lines = [INTRODUCTION, "| | " + " | ".join(PHASES.values()) + " |", "|---|---|---|---|"]
    missed: dict[str, list[str]] = {}
    for library, title in LIBRARIES.items():
        row = []
        for phase in PHASES:
            passed = total = 0
            for entry, result in results.items():
                cpu = (result.get("cpu") or {}).get(phase) or {}
                if not entry.startswith(library + ":") or not cpu.get("ok"):
                    continue
                found = result.get(phase) or {}
                total += 1
                if found.get("ok") and found.get("match"):
                    passed += 1
                else:
                    missed.setdefault(entry.split(":")[1], []).append(PHASES[phase])
            row.append(f"{passed} of {total}" if total else "")
        lines.append(f"| {title} | " + " | ".join(row) + " |")
    lines += ["", "| what does not match | models |", "|---|---|"]
    grouped: dict[str, list[str]] = {}
    for name, phases in missed.items():
        grouped.setdefault(reason(name), []).append(f"`{name}` ({', '.join(phases)})")
    for why, names in sorted(grouped.items(), key=lambda item: item[0]):
        lines.append(f"| {why} | {', '.join(names)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("tools/zoo_page.py: expected files that hf_zoo.py --json wrote, found none")
    results: dict[str, dict[str, Any]] = {}
    for file in sys.argv[1:]:
        results |= {result["entry"]: result for result in json.loads(Path(file).read_text())["results"]}
    PAGE.write_text(page(results))


if __name__ == "__main__":
    main()
