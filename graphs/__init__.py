"""Graph documents: reading, writing and errors. Standard library only."""
