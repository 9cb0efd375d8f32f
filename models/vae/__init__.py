"""Autoencoders: images, and video frame by frame."""
