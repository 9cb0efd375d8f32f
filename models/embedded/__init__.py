"""Models that ship with pipegraph."""
