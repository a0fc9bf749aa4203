"""Releases known only to be (epsilon, 0)-DP are dominated by randomised response, whose losses take two values."""
