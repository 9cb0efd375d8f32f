"""Text encoders: how prompts become tokens, states and vectors."""
