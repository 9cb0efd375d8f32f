"""Video models that make a clip chunk by chunk, each chunk seeing those before it through a memory."""
