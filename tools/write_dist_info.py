"""Writes torchtpu-<version>.dist-info beside pyproject.toml, so that PyTorch finds a checkout's entry points."""

import pathlib
import shutil
import tomllib

root = pathlib.Path(__file__).resolve().parent.parent
project = tomllib.loads((root / "pyproject.toml").read_text())["project"]

for stale in root.glob("torchtpu-*.dist-info"):
    shutil.rmtree(stale)
dist_info = root / f"torchtpu-{project['version']}.dist-info"
dist_info.mkdir()
(dist_info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
with (dist_info / "entry_points.txt").open("w") as file:
    for group, entries in project["entry-points"].items():
        file.write(f"[{group}]\n")
        file.writelines(f"{name} = {target}\n" for name, target in entries.items())
