"""Causal video models: generate a video chunk by chunk with a KV cache."""
