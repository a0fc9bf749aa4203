"""What `sweeps pareto` does: read a front from the store or from MLflow, print it or write it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from dpcore.checks import InvalidValue
from sweeps.front.export import FORMATS, SUFFIXES, render
from sweeps.front.joint import joint_front
from sweeps.front.panels import AxisEnd, FrontAxis
from sweeps.front.pareto import LABELS
from sweeps.util.files import write_output
from sweeps.util.suggest import closest
from sweeps.util.workspace import Workspace


def pareto_command(
    *,
    sweeps: Sequence[str],
    mlflow: tuple[str, str] | None,
    objectives: Sequence[str],
    references: Sequence[str],
    mix: Collection[str],
    form: str | None,
    output: Path | None,
    workspace: Workspace,
    as_refuted: bool = False,
) -> None:
    """`form` None: by the name of `output`.

    Raises InvalidValue (what to read, format, mixture), UnknownSweep, and OSError for an output that cannot be.
    """
    form = form or _form_of(output)
    if form not in FORMATS:
        raise InvalidValue("--format", form, f"one of {', '.join(FORMATS)}", closest(form, FORMATS))
    for label in mix:
        if label not in LABELS:
            raise InvalidValue("--mix", label, f"one of {', '.join(LABELS)}", closest(label, LABELS))
    parsed = [FrontAxis.parse(one) for one in objectives]
    ends = dict(AxisEnd.parse(one) for one in references)
    if (not sweeps) == (mlflow is None):
        named = ", ".join(sweeps) or None
        raise InvalidValue("sweep", named, "either a sweep of the store or --mlflow URI EXPERIMENT")
    if mlflow is not None:
        from sweeps.tracking.front import read_front

        front = read_front(*mlflow, objectives=parsed or None, mix=mix, reference=ends, as_refuted=as_refuted)
    else:
        from sweeps.release.publisher import Publisher

        store = Publisher.open(workspace.store_url)
        front = joint_front(store, sweeps, parsed or None, mix=mix, reference=ends, as_refuted=as_refuted)
    if form == "table" and output is None:
        from rich.console import Console

        from sweeps.front.terminal import table

        Console().print(table(front))
        return
    content = render(front, form)
    _write(content, output)


def _form_of(output: Path | None) -> str:
    if output is None:
        return "table"
    if output.suffix.lower() not in SUFFIXES:
        raise InvalidValue("output", str(output), f"a name that ends in {', '.join(filter(None, SUFFIXES))}", _FORMAT)
    return SUFFIXES[output.suffix.lower()]


_FORMAT = f"Or say --format: {', '.join(FORMATS)}."


def _write(content: str | bytes, output: Path | None) -> None:
    if output is not None:
        print(write_output(content, output))
    elif isinstance(content, str):
        sys.stdout.write(content)
    elif sys.stdout.isatty():
        raise InvalidValue("output", None, "a file for this format", "Add --output FILE, or redirect.")
    else:
        sys.stdout.buffer.write(content)
