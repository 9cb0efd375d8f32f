"""Video: what travels on a VIDEO wire, its files, and its latents."""
