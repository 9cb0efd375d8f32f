"""Keys and values of sequences: pages, caches over them, the prefix cache, and the memory budget."""
