"""A Llama of about two million parameters over bytes, with its optimizer and schedule."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM, get_cosine_schedule_with_warmup

from demo.settings import Settings


def build_model(settings: Settings) -> LlamaForCausalLM:
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=256,
            hidden_size=192,
            intermediate_size=512,
            num_hidden_layers=4,
            num_attention_heads=6,
            max_position_embeddings=settings.context,
            bos_token_id=None,
            eos_token_id=None,
        )
    )


def build_optimizer(model: torch.nn.Module, settings: Settings) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, betas=(0.9, 0.95), weight_decay=0.1)


def build_schedule(optimizer: torch.optim.Optimizer, settings: Settings) -> torch.optim.lr_scheduler.LambdaLR:
    return get_cosine_schedule_with_warmup(optimizer, settings.warmup, settings.steps)
