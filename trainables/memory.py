"""How much memory this process has held at most, counted anew for each launch: processes are reused."""

from __future__ import annotations

import ctypes
import gc
import math
import resource
from contextlib import suppress
from pathlib import Path

_MACHINE, _GROUP = Path("/proc/meminfo"), Path("/sys/fs/cgroup")
_RESET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def forget_peak() -> None:
    """Count from here on. Where the system offers no way (other than Linux), the count is that of the process."""
    with suppress(OSError):
        _RESET.write_text("5")


def give_back() -> None:
    """What is free goes back to the system, or what follows would be counted without it: a tenth of a second."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def peak_mb() -> float:
    """Largest resident memory since `forget_peak`, in MiB; pages shared with other processes count in each."""
    with suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "VmHWM":
                return int(value.split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def free_mb() -> float:
    """Memory that processes may still take on this machine, or in this container, in MiB; infinite where it is not
    told."""
    free = [math.inf]
    with suppress(OSError):
        told = dict(line.split(":") for line in _MACHINE.read_text().splitlines())
        free.append(int(told["MemAvailable"].split()[0]) / 1024)
    with suppress(OSError, ValueError):
        most, held = (int((_GROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        free.append((most - held) / 2**20)
    return min(free)
