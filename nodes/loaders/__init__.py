"""Nodes that load models and LoRAs."""
