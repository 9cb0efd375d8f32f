"""Adapters: small weights that change what a network does without touching its own."""
