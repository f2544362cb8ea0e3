"""Likelihood training: the value and gradient of an image, baselines, steps, the run."""
