"""Keys and values of sequences: pages, the cache made of them, prefixes kept for later, and the budget in bytes."""
