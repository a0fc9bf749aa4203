"""Peak memory of one launch, not of all that its process ran before."""

import json
import subprocess
import sys

SCRIPT = """
import json, numpy
from trainables.worker import memory

numpy.ones(80 << 20)
first = memory.peak_mb()
memory.forget_peak()
small = memory.peak_mb()
held = numpy.ones(40 << 20)
large = memory.peak_mb()
del held
after = memory.peak_mb()
print(json.dumps([first, small, large, after]))
"""


def test_a_launch_does_not_inherit_the_peak_of_the_one_before():
    """In a process of its own: what other tests left behind may be freed at any moment."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    first, small, large, after = json.loads(done.stdout)
    assert first > 640
    assert small < first - 600
    assert small + 300 < large < small + 400
    # The kernel counts pages in batches.
    assert after > large - 10
