"""Looking at programs: TORCHTPU_DUMP, and the user's lines in their locations."""

import re
from pathlib import Path

import torch
from process import run
from torch.nn import functional as F

import torchtpu
from torchtpu import _C


def texts_of(call) -> list[str]:
    torch._dynamo.reset()
    _C._record_programs(True)
    try:
        call()
        torch.tpu.synchronize()
        return [text for name, text in _C._take_programs() if name.startswith("compiled")]
    finally:
        _C._record_programs(False)


def line_of(text: str, op: str) -> str:
    """The code at the line that the first `op` of the program is from."""
    file, line = re.search(rf' = {op} .*loc\(".* at (.*):(\d+)"\)', text).groups()
    return Path(file).read_text().splitlines()[int(line) - 1].strip()


def test_locations_are_the_users_lines_forward_and_backward():
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return F.softmax(y, -1).prod()  # product of probabilities

    x = torch.rand(3, device="tpu", requires_grad=True)
    forward, backward = texts_of(lambda: torch.compile(fn, backend="tpu")(x).backward())
    assert line_of(forward, "stablehlo.sine") == "y = x.sin()"
    assert line_of(forward, "stablehlo.exponential").startswith("return F.softmax")
    assert line_of(backward, "stablehlo.cosine") == "y = x.sin()"


def test_locations_in_a_whole_step():
    model = torch.nn.Linear(3, 2, device="tpu")

    def loss_of(model: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
        y = model(x).tanh()
        return y.sum()

    step = torchtpu.compile_step(model, torch.optim.SGD(model.parameters(), 0.1), loss_of)
    x = torch.ones(1, 3, device="tpu")
    (text,) = texts_of(lambda: [step(x) for _ in range(2)])
    assert line_of(text, "stablehlo.tanh") == "y = model(x).tanh()"


def test_programs_that_differ_in_their_lines_alone_are_compiled_once():
    x = torch.ones(7, 3, device="tpu")
    a = texts_of(lambda: torch.compile(lambda x: x.cos() * 3 + x, backend="tpu")(x))
    made = _C._compile_count()
    b = texts_of(lambda: torch.compile(lambda x: x.cos() * 3 + x, backend="tpu")(x))
    assert a != b and _C._compile_count() == made


def test_a_dump_has_each_stage_of_each_program(tmp_path):
    code = """
import torch
model = torch.nn.Linear(4, 2).to("tpu")
torch.compile(model)(torch.ones(3, 4, device="tpu")).sum().backward()
torch.tpu.synchronize()
"""
    run(code, TORCHTPU_DUMP=str(tmp_path / "dump"))
    files = sorted((tmp_path / "dump").iterdir())
    for kind in ("forward", "backward"):
        stages = {f.name.partition(".")[2]: f.read_text() for f in files if f.name.startswith(f"compiled_{kind}-")}
        assert set(stages) == {"fx.py", "stablehlo.mlir", "hlo.txt", "cost.txt"}
        assert "stablehlo.dot_general" in stages["stablehlo.mlir"] or kind == "backward"
        assert "HloModule" in stages["hlo.txt"] and "torch.ops.aten" in stages["fx.py"]
        assert "flops: " in stages["cost.txt"] and "argument bytes: " in stages["cost.txt"]
