"""Losses rounded to a grid, to either side, and composed by FFT."""
