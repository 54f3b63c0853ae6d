"""A training loop's memory does not grow."""

import gc

from process import run

LOOP = """
import gc, psutil, sys, torch
from torch.nn import functional as F
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Dropout(0.1),
                            torch.nn.Linear(32, 4)).to("tpu")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100_000)
def step(i):
    x, y = torch.randn(8, 16, device="tpu"), torch.randint(4, (8,), device="tpu")
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    if i % 10 == 0:
        loss.item()
def figures():
    gc.collect()
    torch.tpu.synchronize()
    return torch.tpu.memory_allocated(), torch.tpu.memory_reserved(), psutil.Process().memory_info().rss
warm, steps = int(sys.argv[1]), int(sys.argv[2])
for i in range(warm):
    step(i)
before = figures()
for i in range(steps):
    step(i)
print(*(after - b for after, b in zip(figures(), before)))
"""


def test_training_loop_does_not_grow():
    """A run of 10,000 steps is `python -c "$LOOP" 300 10000`."""
    gc.collect()
    code = LOOP.replace("int(sys.argv[1]), int(sys.argv[2])", "300, 1000")
    allocated, reserved, resident = map(int, run(code, TORCHTPU_PJRT="cpu", TORCHTPU_MODE="strict").split())
    assert allocated == 0 and reserved <= 64 * 1024  # of recent scalars (an lr each step) a bounded number is kept
    assert resident < 8 << 20
