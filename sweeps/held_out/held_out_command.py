"""`sweeps test`: the test records are read once, for one trial."""

from __future__ import annotations

from typing import Annotated

import typer

from sweeps.cli.options import DEFAULT_ROOT, AsJson, Root, StoreUrl
from sweeps.cli.output import print_json


def held_out_test(
    sweep: str,
    trial: Annotated[str, typer.Argument(help="Key of the trial, or its number.")],
    again: Annotated[
        bool, typer.Option("--again", help="Although they were read before: no longer untouched, and charged again.")
    ] = False,
    accept: Annotated[list[str] | None, typer.Option(help="Score although this changed: code.")] = None,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Score a finished trial on the test records that its spec declares (`data.test`): once, on record.

    A second reading is refused. The cards of models say what was read, and how often.
    """
    import sweeps

    found = sweeps.open(sweep, root=root, store=store).test(trial, again=again, accept=accept or ())
    if as_json:
        print_json(found.to_dict())
    else:
        print(f"{found.trial} on test records: {found}")
