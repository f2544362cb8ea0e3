"""How work is run: on threads, with checkpoints, with progress. Knows nothing of images."""
