"""How good the search is, judged on recorded trials of noisy-sgd: `python -m tests.benchmarks.surfaces`."""
