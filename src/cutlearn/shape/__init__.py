"""Boltzmann machines: shapes that are learned, alone and given an image."""
