"""Nodes for plain values, text and logic."""
