"""Commands about a sweep that was started: what its people ask of it, wherever its controller runs."""

from __future__ import annotations

from typing import Annotated

import typer

from sweeps.cli.options import DEFAULT_ROOT, AsJson, Root, StoreUrl, TrackingUri
from sweeps.cli.output import print_json


def stop(
    sweep: str,
    wait: Annotated[bool, typer.Option(help="Until it has ended, for one patience (SWEEPS_PATIENCE) at most.")] = True,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Stop a sweep that runs in another terminal or on another machine, as Ctrl-C does there; it can be resumed."""
    from sweeps.face import opening

    answer = opening.open(sweep, root=root, store=store).stop(wait=wait)
    if as_json:
        print_json(answer.to_dict())
    else:
        print(answer)


def note(sweep: str, text: str, root: Root = DEFAULT_ROOT, store: StoreUrl = None) -> None:
    """Keep a sentence about a sweep, running or over; `show` prints it, and MLflow within seconds or by `track`."""
    from sweeps.face import opening

    opening.open(sweep, root=root, store=store).note(text)


def tag(
    sweep: str,
    tags: Annotated[list[str], typer.Argument(help="KEY=VALUE, one or several; KEY= takes a tag away.")],
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
) -> None:
    """Tag a sweep, running or over; `show` lists them, and MLflow has them within seconds or by `track`."""
    from sweeps.face import opening

    opening.open(sweep, root=root, store=store).tag(tags)


def enqueue(
    sweep: str,
    point: Annotated[list[str], typer.Argument(help="KNOB=VALUE each; system= and target_epsilon= where several.")],
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Ask for a trial of a known good point besides; the total stays a guarantee where the sweep has one budget."""
    from sweeps.face import opening

    answer = opening.open(sweep, root=root, store=store).enqueue(point)
    if as_json:
        print_json(answer.to_dict())
    else:
        print(answer)


def gc(
    sweep: str,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which, and how many bytes.")] = False,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    as_json: AsJson = False,
) -> None:
    """Delete checkpoints off the front. Kept are those of trials that may still run, on the front, and of the best."""
    from sweeps.face import opening

    collected = opening.open(sweep, root=root, store=store).gc(dry_run=dry_run)
    if as_json:
        print_json(collected.to_dict())
    else:
        print(collected)


def rename(
    sweep: str,
    new: Annotated[str, typer.Argument(help="Free, and then never another sweep's.")],
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
) -> None:
    """Call a sweep by another name; trials and folders keep the one that it began with."""
    from sweeps.face import opening

    opening.open(sweep, root=root, store=store).rename(new)


def delete(
    sweep: str,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    tracking: TrackingUri = None,
) -> None:
    """Delete a sweep's results and files for good; what it spent on the records stays on record, as does its name."""
    from sweeps.execution.gc import GOES, STAYS
    from sweeps.face import opening

    found = opening.open(sweep, root=root, store=store, tracking=tracking)
    if not yes:
        print(f"{GOES}\n{STAYS}")
        typer.confirm(f"Delete {sweep!r}?", abort=True)
    print(found.delete())
