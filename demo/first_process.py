"""The first process: embeds the sentences, trains the model, saves the checkpoint, writes a sample."""

import sys
import time

import torch

from demo import bigram, corpus, results
from demo.devices import describe
from demo.encoder import Embedded, embed
from demo.generation import complete
from demo.settings import OUT, Settings, choose
from demo.training import Training


def run(device: torch.device, settings: Settings, started: float) -> results.First:
    embedded = embed(device)
    _print_pairs(embedded)

    text = corpus.load()
    windows = text.held_out_windows(settings.held_out_windows, settings.context)
    baseline = bigram.held_out_loss(text.train, windows)
    torch.manual_seed(settings.seed)
    training = Training(device, settings, text)
    parameters = sum(p.numel() for p in training.model.parameters())
    print(
        f"\nLlamaForCausalLM, {parameters / 1e6:.2f} M parameters; "
        f"{len(text.train) / 1e6:.1f} MB of {text.train_files} files to train on, "
        f"{len(text.held_out) / 1e6:.2f} MB of {text.held_out_files} held out",
        flush=True,
    )

    losses: list[float] = []
    held_out: list[tuple[int, float]] = []
    random_numbers: list[float] = []
    seconds_to_first_loss = 0.0

    def report(step: int, interval: list[float]) -> None:
        nonlocal seconds_to_first_loss
        seconds_to_first_loss = seconds_to_first_loss or time.time() - started
        losses.extend(interval)
        if step == settings.checkpoint_step:
            training.save(OUT / "checkpoint.pt")
            random_numbers.extend(training.random_numbers())
        if step % settings.held_out_interval == 0 or step == settings.steps:
            held_out.append((step, training.held_out_loss(windows)))

    seconds_to_training = time.time() - started
    training.run(settings.steps, report, "train")
    prompt, completion = complete(training.model, text.held_out, settings)
    (OUT / "sample.txt").write_text(f"{prompt}\n[the model goes on from here]\n{completion}\n")
    print(f"\nsample, from {OUT / 'sample.txt'}; it goes on after the bar:\n\n{prompt}|{completion}\n", flush=True)
    return results.First(
        device=describe(device),
        sentences=embedded.sentences,
        largest_difference=embedded.largest_difference,
        parameters=parameters,
        seconds_to_training=seconds_to_training,
        seconds_to_first_loss=seconds_to_first_loss,
        losses=losses,
        held_out=held_out,
        bigram=baseline,
        random_numbers=random_numbers,
    )


def _print_pairs(embedded: Embedded) -> None:
    print(f"\nnearest pairs of {embedded.sentences} sentences from the standard library's modules:")
    for pair in embedded.pairs:
        print(f"  {pair.similarity:.3f}  {pair.modules[0]}: {pair.sentences[0]}")
        print(f"         {pair.modules[1]}: {pair.sentences[1]}")
    print(f"largest difference from the CPU's embeddings: {embedded.largest_difference:.1e}", flush=True)


if __name__ == "__main__":
    device = torch.device(sys.argv[1])
    print(describe(device), flush=True)
    settings = choose(sys.argv[2] == "quick")
    results.write(OUT / "first.json", run(device, settings, float(sys.argv[3])))
