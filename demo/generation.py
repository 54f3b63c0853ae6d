"""Text from the trained model."""

import numpy as np
import torch
from transformers import LlamaForCausalLM

from demo.settings import Settings

_OPENING = b"\n    def "


def complete(model: LlamaForCausalLM, held_out: np.ndarray, settings: Settings) -> tuple[str, str]:
    """A held-out prompt that ends where a method opens, and how the model goes on.

    Each call of generate sees the last `context` bytes and adds one, so that one shape serves all.
    """
    text = held_out.tobytes()
    end = text.index(_OPENING, settings.context) + len(_OPENING)
    prompt = torch.tensor([list(text[end - settings.context : end])], device=model.device)
    window, written = prompt, []
    model.eval()
    for _ in range(settings.sample_bytes):
        ids = model.generate(
            window,
            attention_mask=torch.ones_like(window),
            max_new_tokens=1,
            do_sample=True,
            temperature=0.8,
            top_k=40,
            use_cache=False,
        )
        window = ids[:, 1:]
        written.append(ids[:, -1])
    return _text(prompt[0]), _text(torch.cat(written))


def _text(ids: torch.Tensor) -> str:
    return bytes(ids.tolist()).decode(errors="replace")
