"""What nodes change in how a network computes, for the calls of one run."""
