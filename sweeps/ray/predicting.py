"""Predictions of many files as one Ray Data pipeline: workers map an exported model over pieces of the files."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import ray
import ray.data

from dpcore.checks import QuotesRecords
from sweeps.ray import patches
from sweeps.ray.cluster import check_reachable, cluster, data_path_seen_by_all
from sweeps.spec import Resources
from sweeps.util.log import Event, say
from trainables.data.table_file import TablePiece
from trainables.export.files import PieceWorker, Written, plain
from trainables.worker.credentials import Credentials
from trainables.worker.files import Folder

LOCAL = "local"
"""The address of a Ray of this machine's own."""
_BLOCKS = 1000


def asked_in_pieces(
    pieces: Sequence[tuple[str, TablePiece]],
    output: Folder,
    address: str,
    told: Callable[[int, int], None] = lambda done, pieces: None,
) -> Written:
    """Ask about all pieces, on every processor that the cluster has for it, and say what was written.

    output   the model lies there (`trainables.export.files.send`)
    address  auto or HOST:PORT of a cluster, or "local"
    told     hears how many of the pieces are done

    Memory is that of one piece for each worker, whatever the number of files. Raises QuotesRecords with the first file
    that holds what was not declared, ClusterUnreachable.
    """
    if not pieces:
        return Written(folder=output.url, rows=0, parts=())
    where = None if address == LOCAL else address
    check_reachable(where, Resources())
    with (
        _quietly(),
        cluster(where, on_lost=lambda: say("The Ray cluster does not answer any more: ask again.", Event.ERROR)),
    ):
        data_path_seen_by_all(output)
        items = [
            {"number": number, "file": file, "piece": json.dumps(plain(piece))}
            for number, (file, piece) in enumerate(pieces)
        ]
        workers = max(1, min(len(items), int(ray.cluster_resources().get("CPU", 1))))
        asked = ray.data.from_items(items, override_num_blocks=min(len(items), _BLOCKS)).map_batches(
            _Trusted,
            fn_constructor_args=(output.url, (ray.put(Credentials.of_this_process()),)),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=workers),
            num_cpus=1,
        )
        parts: list[str] = []
        rows, done = 0, set()
        for answer in asked.iter_rows():
            if answer["error"]:
                raise QuotesRecords("file", str(answer["error"]), "rows as the model declares them")
            parts.append(str(answer["name"]))
            rows += int(answer["rows"])
            done.add(answer["number"])
            told(len(done), len(items))
    return Written(folder=output.url, rows=rows, parts=tuple(sorted(parts)))


class _Trusted(PieceWorker):
    """One that reads and writes as the driver may."""

    def __init__(self, output: str, credentials: tuple[ray.ObjectRef[Credentials]]) -> None:
        """`credentials` lie in the cluster's object store: Ray logs the arguments of actors, and shows them."""
        ray.get(credentials[0]).take()
        super().__init__(output)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what Ray Data tells of its own steps, and that a cluster of this machine's own is closed by a token."""
    context = ray.data.DataContext.get_current()
    loggers = [logging.getLogger(name) for name in ("ray.data", patches.TOKEN_LOGGER)]
    bars, levels = context.enable_progress_bars, [logger.level for logger in loggers]
    context.enable_progress_bars = False
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        context.enable_progress_bars = bars
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
