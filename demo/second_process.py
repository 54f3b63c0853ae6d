"""The second process: resumes from the checkpoint and repeats some of the first one's steps."""

import sys

import torch

from demo import corpus, results
from demo.settings import OUT, Settings, choose
from demo.training import Training


def run(device: torch.device, settings: Settings) -> results.Second:
    torch.manual_seed(settings.seed + 1)  # all that follows has to come from the checkpoint
    training = Training(device, settings, corpus.load())
    training.load(OUT / "checkpoint.pt")
    random_numbers = training.random_numbers()
    losses: list[float] = []
    until = training.step + settings.resumed_steps
    training.run(until, lambda _, interval: losses.extend(interval), "resume")
    return results.Second(losses, random_numbers)


if __name__ == "__main__":
    device, settings = torch.device(sys.argv[1]), choose(sys.argv[2] == "quick")
    results.write(OUT / "second.json", run(device, settings))
