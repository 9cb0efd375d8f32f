"""From tokens to tokens: prefill, decode, speculative decoding, sampling, constraints and stop strings."""
