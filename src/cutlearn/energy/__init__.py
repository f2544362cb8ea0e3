"""Energies of labellings: unary, pairwise and higher-order terms, and how weights make them."""
