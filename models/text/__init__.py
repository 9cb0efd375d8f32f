"""Prompts to conditioning: facts of text encoders, tokens, prompt weights, and the encoders themselves."""
