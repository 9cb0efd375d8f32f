"""Language models: tokens, prefill, decode and the cache of keys and values between them."""
