"""Samplers, schedules, guidance and noise."""
