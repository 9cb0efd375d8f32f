"""From names that users give to loaded models: which networks lie in a file, and what completes them."""
