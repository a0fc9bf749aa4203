"""Where a sweep's files are: one root folder, one store, one folder per sweep, and the workers' records."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dpcore.checks import InvalidValue
from sweeps.store.errors import StoreOlder
from sweeps.store.records import SweepRecord, TrialRecord, TrialState, sweep_of
from sweeps.util.files import check_tracking_uri, url_of
from sweeps.util.text import check_text
from trainables.worker.files import Folder
from trainables.worker.redaction import shown_url

if TYPE_CHECKING:
    from sweeps.spec.sections import SweepSpec
    from sweeps.store.store import Store


DEFAULT_ROOT = ".sweeps"
ANNOUNCED = "sealed.json"
"""What is announced of a sealed search, in the sweep's own folder."""
RECORDS = ("s3", "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
"""Kinds of object stores that pyarrow opens."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """Paths below `root`, the controller's own folder, and the workers' records.

    records  folder or object-store URL (s3://, gs://, abfs://) that every node sees at the same place; None is `root`,
             which every node must then see at the same path
    """

    root: str
    store: str | None = None
    tracking: str | None = None
    records: str | None = None

    @classmethod
    def at(
        cls,
        root: str | Path,
        store: str | None = None,
        tracking: str | None = None,
        records: str | None = None,
    ) -> Workspace:
        """The workspace at `root`, made absolute so that workers in other folders agree.

        Raises InvalidValue for a root that is a URL, and for records with credentials in their URL.
        """
        check_text("root", str(Path(root).absolute()))
        # "." has no part.
        first = next(iter(Path(root).parts), "")
        if len(first.rstrip(":")) > 1 and first.endswith(":"):
            remedy = f"An object store holds the workers' records: --records {first}//..."
            raise InvalidValue("root", str(root), "a local folder, for the controller's own files", remedy)
        if tracking is not None:
            check_tracking_uri("--tracking", tracking)
        if records is not None:
            scheme, url, _ = records.partition("://")
            if url and scheme not in RECORDS:
                expected = f"a folder that every node sees, or a URL of {', '.join(RECORDS)}"
                raise InvalidValue("--records", shown_url(records), expected, "For example s3://BUCKET/FOLDER.")
            records = records.rstrip("/") if "://" in records else str(Path(records).absolute())
            Folder(records)
        return cls(root=str(Path(root).absolute()), store=store, tracking=tracking, records=records)

    def of(self, sweep: SweepRecord) -> Workspace:
        """This workspace with the records where the sweep keeps them, unless they were named.

        Raises InvalidValue when they are in a folder that is not here: every attempt would be charged whole and begin
        anew.
        """
        if self.records is not None or sweep.records:
            return replace(self, records=self.records or sweep.records)
        if sweep.root != self.root and not self.in_use(sweep.name) and not Path(sweep.root).is_dir():
            remedy = "Go on there, or copy the folder here; with --records on an object store any machine can go on."
            raise InvalidValue(
                "root", self.root, f"a folder with the records of {sweep.name!r}, which are in {sweep.root}", remedy
            )
        return self

    @property
    def store_url(self) -> str:
        """SQLAlchemy URL of the store: `<root>/sweeps.db` unless told otherwise."""
        return self.store or url_of(f"{self.root}/sweeps.db")

    def open_store(self, create: bool = False) -> Store:
        """The store. Raises StoreError; by default also where there is none yet."""
        from sweeps.store.store import open_store

        return open_store(self.store_url, create=create)

    @property
    def tracking_uri(self) -> str:
        """MLflow tracking URI: `<root>/mlflow.db` unless told otherwise."""
        return self.tracking or url_of(f"{self.root}/mlflow.db")

    def folder(self, sweep: str) -> Path:
        """The sweep's own folder."""
        return Path(self.root) / sweep

    def in_use(self, sweep: str) -> bool:
        """Whether the folder of that name holds files (an empty one is left by a kill just before the store's row)."""
        return bool(Folder(str(self.folder(sweep))).names() or self.trials(sweep).names())

    def unknown(self, sweeps: Collection[str]) -> tuple[str, ...]:
        """Names of sweeps whose files lie in the root, and which are none of these: those that its store knows."""
        root = Path(self.root)
        found = {path.parent.name for name in ("trials", ANNOUNCED) for path in root.glob(f"*/{name}")}
        return tuple(sorted(found.difference(sweeps)))

    def unknown_trials(self, sweep: str, keys: Collection[str]) -> tuple[str, ...]:
        """Keys of trials that left files in the sweep's records, and are none of these: those that its store knows.

        Of records on an object store none: nobody waits for a network to see a budget.
        """
        folder = self.trials(sweep)
        names = folder.names() if folder.is_local else []
        return tuple(one for one in names if sweep_of(one) == sweep and one not in keys)

    def records_of(self, sweep: str) -> Folder:
        """The sweep's folder where workers keep their records."""
        return Folder(self.records or self.root).child(sweep)

    def trials(self, sweep: str) -> Folder:
        """Where workers keep the records of attempts."""
        return self.records_of(sweep).child("trials")

    @property
    def features(self) -> Path:
        """Where encoded records and features are kept, for all sweeps of this root: as private as the records, and no
        sweep's name."""
        return Path(self.root) / ".features"

    def report(self, sweep: str) -> Path:
        """The report page."""
        return self.folder(sweep) / "report.html"

    def certificate(self, sweep: str) -> Path:
        """The certificate's document; its page lies beside it."""
        return self.folder(sweep) / "certificate.json"


def newer_attempt(
    sweep: str,
    spec: SweepSpec,
    trials: Folder,
    read: Callable[[], Iterable[TrialRecord]],
    known: Iterable[TrialRecord] | None = None,
) -> str:
    """What lies in a sweep's records that its store does not know: "trial s-4", "attempt 2 of trial s-3", or "".

    read   the sweep's trials, as the store has them now
    known  the same as somebody has just read them

    A store that was copied back from an earlier day leaves out what workers drew since. Each trial is looked at that
    may have had a later attempt: early stopping may have promoted a complete one. Raises OSError for records that
    cannot be listed.
    """
    mine = re.compile(rf"{re.escape(sweep)}-\d+")
    found = {key: 1 for key in trials.names() if mine.fullmatch(key)}
    has = {one.key: one for one in (read() if known is None else known)}
    for key, one in has.items():
        paused = spec.early_stopping is not None and one.state is TrialState.COMPLETE and one.step < one.planned_steps
        if paused or one.state in (TrialState.RUNNING, TrialState.PLANNED):
            found[key] = max((int(name) for name in trials.child(key).names() if name.isdecimal()), default=0)
    later = {key: number for key, number in found.items() if key not in has or number > has[key].attempts}
    # A controller that runs writes an attempt into its store first: what is known by now was no older copy.
    has = {one.key: one for one in read()} if later else {}
    for key, number in later.items():
        if key not in has:
            return f"trial {key}"
        if number > has[key].attempts:
            return f"attempt {number} of trial {key}"
    return ""


def check_store_not_stale(
    sweep: str, spec: SweepSpec, trials: Folder, read: Callable[[], Iterable[TrialRecord]]
) -> None:
    """Raises StoreOlder where `newer_attempt` finds something, and what that raises."""
    if newer := newer_attempt(sweep, spec, trials, read):
        raise StoreOlder(sweep, newer, trials.url)
