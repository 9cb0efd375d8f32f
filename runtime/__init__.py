"""The engine: catalogue, checking, planning and running of graphs. Torch-free."""
