"""From min-marginals to probabilities, to decisions, and to what should be annotated next."""
