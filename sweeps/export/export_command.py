"""`sweeps export` and `sweeps predict`: a trial's model as a folder, and what such a model says of files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from dpcore.checks import InvalidValue
from sweeps.cli.options import DEFAULT_ROOT, AsJson, Root, StoreUrl, TrackingUri


def export(
    sweep: str,
    trial: Annotated[str, typer.Argument(help="Key of the trial, or its number.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder to make, which is not there yet.")
    ] = None,
    model_name: Annotated[
        str | None, typer.Option("--register", help="Add it to MLflow's registry, as the next version of this name.")
    ] = None,
    as_refuted: Annotated[
        bool, typer.Option("--as-refuted", help="Let it out although its claim is refuted, under that heading.")
    ] = False,
    accept: Annotated[list[str] | None, typer.Option(help="Export although this changed: code.")] = None,
    root: Root = DEFAULT_ROOT,
    store: StoreUrl = None,
    tracking: TrackingUri = None,
    as_json: AsJson = False,
) -> None:
    """Take the model of a finished trial out: weights, program, preprocessing, and a card with its claim.

    The folder needs torch and safetensors, and nothing of ours. Systems that answer queries have no model to take out.
    In MLflow's registry it stands without a pickle, with its claim as tags.
    """
    import sweeps
    from sweeps.cli.output import print_json

    if output is None and model_name is None:
        raise InvalidValue("--output", None, "a folder to make, or --register NAME for MLflow's registry")
    opened = sweeps.open(sweep, root=root, store=store, tracking=tracking)
    chosen: dict[str, Any] = {"as_refuted": as_refuted, "accept": accept or ()}
    model = opened.model(trial, **chosen)
    places = {}
    if output is not None:
        places["model"] = str(model.save(output))
    if model_name is not None:
        places["registered"] = opened.register(trial, model_name, **chosen).uri
    if as_json:
        print_json({**places, **model.card})
    else:
        print(model.page, *places.values(), sep="\n")


def predict(
    model: Annotated[Path, typer.Argument(help="Folder that `sweeps export` wrote.")],
    files: Annotated[
        list[str],
        typer.Argument(help="Parquet or CSV with the declared columns: files, folders, patterns in quotes, or URLs."),
    ],
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="CSV or Parquet file to write, a row for each row; with --address a folder."
        ),
    ],
    format: Annotated[str | None, typer.Option(help="parquet or csv, where the file's name does not say.")] = None,
    address: Annotated[
        str | None, typer.Option("--address", help="By Ray Data, for many files: local, auto or HOST:PORT.")
    ] = None,
) -> None:
    """What an exported model says of the rows of files, in their order; of several files with a column `file`.

    With --address workers of Ray share the files, and write a folder of Parquet files in that order, in bounded memory.
    """
    import sweeps
    from trainables.export.files import check_output, written

    if address is not None:
        done = sweeps.predict_files(model, files, output, address=address, format=format)
        print(f"{done.rows:,} rows in {len(done.parts)} files in {done.folder}")
        return
    check_output(output)
    print(written(sweeps.predict(model, files, format=format), output))
