"""One model trained by several processes: data-parallel sums, and one process that adds the noise."""
