"""The door where a URL becomes a store: every backend by the scheme of its URLs.

A new backend is a row of `BACKENDS`, or an entry point of an installed package, in the group `private_sweeps.stores`,
whose name is the scheme and whose value is a `Backend`. `contract` has its duties; the exam of stores
(`tests.sweeps.store_exam`) asks whether it does them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from dpcore.checks import InvalidValue
from sweeps.store.contract import Store
from sweeps.store.errors import StoreError
from sweeps.store.sql_store import SqlStore
from trainables import plugins
from trainables.worker.redaction import shown_url

ENTRY_POINTS = "private_sweeps.stores"


class Opens(Protocol):
    """How a backend opens a store."""

    def __call__(self, url: str, create: bool = True, *, patience_seconds: float | None = None) -> Store:
        """As `open_store`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One kind of store.

    scheme  what its URLs begin with, before a colon (or a plus, which may name a driver)
    form    how such a URL looks, for people
    """

    scheme: str
    form: str
    open: Opens


BACKENDS: Mapping[str, Backend] = {
    one.scheme: one
    for one in (
        Backend(scheme="sqlite", form="sqlite:///FILE", open=SqlStore.open),
        Backend(scheme="postgresql", form="postgresql://USER@HOST/DATABASE", open=SqlStore.open),
        # the next store goes here
    )
}


def open_store(url: str, create: bool = True, *, patience_seconds: float | None = None) -> Store:
    """Open the store at `url`, upgrading one of an earlier release.

    create            make it when there is none; otherwise its absence is an error
    patience_seconds  how long to wait for a store that is locked, gone or silent; by default one patience

    Raises StoreError: missing, locked, read-only, full, no store, or written by a newer release; InvalidValue for a
    backend of an installed package that the operator does not let run.
    """
    return _backend(url).open(url, create, patience_seconds=patience_seconds)


def _backend(url: str) -> Backend:
    scheme = url.partition(":")[0].partition("+")[0]
    if scheme in BACKENDS:
        return BACKENDS[scheme]
    offered = plugins.offered(ENTRY_POINTS)
    if scheme not in offered:
        *forms, last = [*(one.form for one in BACKENDS.values()), *(f"{name}:..." for name in offered)]
        raise StoreError(f"store={shown_url(url)!r}: expected {', '.join(forms)} or {last}. Check --store.")
    plugins.enter("store", offered[scheme].value)
    found = offered[scheme].load()
    if not isinstance(found, Backend) or found.scheme != scheme:
        expected = f"a sweeps.store.registry.Backend of that scheme at {offered[scheme].value}, not {found!r}"
        raise InvalidValue("store", scheme, expected)
    return found
