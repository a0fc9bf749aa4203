"""What people do with a sweep after they started it, tried in peers and here: `python -m tests.benchmarks.peers`."""
