"""The demo: a pretrained sentence encoder, and a small Llama trained on Python's own sources."""
