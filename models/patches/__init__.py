"""Patches: changes of how a network computes, active during the calls of one run."""
