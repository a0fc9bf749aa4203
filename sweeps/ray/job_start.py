"""The start of a submitted job on the cluster, in the unpacked parcel: `python -m sweeps.ray.job_start`.

Workers take the environment of the order too, when they start: `load_environment` is their set-up hook.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from sweeps.util.exits import ExitCode

# The order that a submitted job carries out. Imports the standard library alone: nothing is known yet of the
# cluster's Python.

ORDER_FILE, SPEC_FILE = "sweeps-order.json", "spec.yaml"
OPERATORS = "SWEEPS_PLUGINS"
"""The variable by which the cluster's operator decides what code may run (`trainables.plugins`): no order sets it."""


@dataclass(frozen=True, slots=True)
class Order:
    """The words after `sweeps`, and the environment to set first."""

    arguments: Sequence[str]
    environment: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> Order:
        """The order of the parcel at `path`."""
        return cls(**json.loads(path.read_text()))


UNPACKED_SECONDS = 30.0


def load_environment() -> None:
    """Set what the order says. Workers are started in the parcel's folder, or a folder on their path is it.

    Ray may unpack a parcel anew under a worker that starts: it waits UNPACKED_SECONDS, and without its order it does
    not work. Raises FileNotFoundError.
    """
    limit = time.monotonic() + UNPACKED_SECONDS
    while (found := _order_on_path()) is None:
        if time.monotonic() > limit:
            raise FileNotFoundError(
                f"{ORDER_FILE}: in none of {[str(Path.cwd()), *sys.path]}. Try: sweeps submit NAME --resume"
            )
        time.sleep(0.1)
    parcel, order = found
    os.environ.update(order.environment)
    # What was imported meanwhile from elsewhere is not the code that was submitted.
    importlib.invalidate_caches()
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "sweeps" and not _lies_in(module, parcel):
            del sys.modules[name]


def _order_on_path() -> tuple[Path, Order] | None:
    for folder in (Path.cwd(), *map(Path, sys.path)):
        # Half a file is none yet.
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, ValueError):
            return folder.resolve(), Order.read(folder / ORDER_FILE)
    return None


def _lies_in(module: ModuleType, folder: Path) -> bool:
    return folder in Path(str(module.__file__)).resolve().parents


def main() -> None:
    """Carry out the order as the command line of this process, in the home folder.

    The parcel's folder belongs to Ray, which may unpack it anew; what the sweep writes must not lie there.
    """
    parcel = Path.cwd()
    order = Order.read(parcel / ORDER_FILE)
    os.environ.update(order.environment)
    # Processes that this one starts need the same code.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(parcel), *filter(None, [os.environ.get("PYTHONPATH")])])
    sys.path.insert(0, str(parcel))
    os.chdir(Path.home())
    sys.argv = ["sweeps", *(str(parcel / word) if word == SPEC_FILE else word for word in order.arguments)]
    try:
        command_line = importlib.import_module("sweeps.cli.main").main
    except ModuleNotFoundError as missing:
        print(
            f"sweeps: {sys.executable} on the cluster's head has no module {missing.name!r}. Run the cluster from the "
            "image in infra/, or install this project's requirements there and put that Python first on PATH.",
            file=sys.stderr,
        )
        sys.exit(ExitCode.BAD_INPUT)
    command_line()


if __name__ == "__main__":
    main()
