"""What people look at: figures of a model with their spread, and pictures."""
