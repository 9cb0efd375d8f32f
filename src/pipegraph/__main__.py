"""``python -m pipegraph``."""

from pipegraph.cli import main

main()
