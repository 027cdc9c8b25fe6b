"""Smaller weights: one file per scheme, each with a reference and a fast path."""
