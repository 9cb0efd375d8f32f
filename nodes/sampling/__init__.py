"""Nodes for sampling: samplers, schedules, guidance, patches."""
