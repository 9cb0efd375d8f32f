"""Video models that make a video chunk by chunk, each chunk seeing those before it through a memory."""
