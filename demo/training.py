"""One training run on a device, which a checkpoint can stop and another process resume."""

from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from tqdm import tqdm

from demo.corpus import Corpus
from demo.devices import random_state, set_random_state
from demo.language_model import build_model, build_optimizer, build_schedule
from demo.settings import Settings


class Training:
    def __init__(self, device: torch.device, settings: Settings, corpus: Corpus) -> None:
        self.device = device
        self.settings = settings
        self.corpus = corpus
        self.model = build_model(settings).to(device)  # type: ignore[arg-type]  # of transformers' wrapper
        self.optimizer = build_optimizer(self.model, settings)
        self.schedule = build_schedule(self.optimizer, settings)
        self.step = 0

    def run(self, until: int, report: Callable[[int, list[float]], None], title: str) -> None:
        """Trains to step `until`; `report` gets each interval's last step and its losses."""
        self.model.train()
        pending: list[torch.Tensor] = []
        with tqdm(total=until, initial=self.step, desc=title, unit="step") as bar:
            while self.step < until:
                pending.append(self._step())
                self.step += 1
                if self.step % self.settings.loss_interval == 0 or self.step in (1, until):
                    losses = torch.stack(pending).tolist()
                    bar.update(len(losses))
                    bar.set_postfix(loss=f"{losses[-1]:.3f}", lr=f"{self.schedule.get_last_lr()[0]:.1e}")
                    pending.clear()
                    report(self.step, losses)

    def _step(self) -> torch.Tensor:
        settings = self.settings
        ids = self.corpus.batch(self.step, settings.batch, settings.context, settings.seed)
        loss = self._loss(ids)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), max_norm=1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def _loss(self, ids: torch.Tensor) -> torch.Tensor:
        ids = ids.to(self.device)
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            return self.model(input_ids=ids, labels=ids, use_cache=False).loss

    @torch.no_grad()
    def held_out_loss(self, windows: torch.Tensor) -> float:
        """Nats per byte on the windows, predicting each byte but a window's first."""
        self.model.eval()
        losses = [self._loss(ids) for ids in _batches(windows, self.settings.batch)]
        self.model.train()
        return torch.stack(losses).mean().item()

    def random_numbers(self) -> list[float]:
        """Drawn from the device's generator: equal in two processes if its state was restored."""
        return torch.rand(4, device=self.device).tolist()

    def save(self, path: Path) -> None:
        torch.save(
            {
                "model": self.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "schedule": self.schedule.state_dict(),
                "step": self.step,
                "random_state": random_state(self.device),
            },
            path,
        )

    def load(self, path: Path) -> None:
        state = torch.load(path, map_location="cpu", weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.step = state["step"]
        set_random_state(self.device, state["random_state"])


def _batches(windows: torch.Tensor, size: int) -> Iterator[torch.Tensor]:
    """All of one shape: the number of windows is a multiple of the batch."""
    assert len(windows) % size == 0
    yield from windows.split(size)
