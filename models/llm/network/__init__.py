"""How the network computes: transformers' layers on a paged cache, experts, images, and the fused decoders."""
