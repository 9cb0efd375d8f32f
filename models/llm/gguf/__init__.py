"""Language models in GGUF files, and tokenizers inside weight files."""
