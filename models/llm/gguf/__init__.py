"""Language models in GGUF files, and tokenizers that weight files carry."""
