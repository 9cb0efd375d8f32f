"""Nodes for images, masks and image latents."""
