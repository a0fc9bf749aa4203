"""Credentials of an object store, handed from the driver to the workers as a value of the cluster's object store.

Never in a runtime environment, a command line or a configuration: Ray logs these, and shows them to everybody who can
open its dashboard.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

NAMES = frozenset({"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SECURITY_TOKEN", "AWS_SESSION_TOKEN"})
"""Variables that the driver's environment decides for all workers; any other one is the node's own."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The variables of `NAMES` that are set, with their values, which no text shows."""

    values: Mapping[str, str] = field(repr=False)

    @classmethod
    def of_this_process(cls) -> Credentials:
        """Those of the driver."""
        return cls({name: os.environ[name] for name in NAMES if name in os.environ})

    def take(self) -> None:
        """Let this process have them, in place of its own."""
        os.environ.update(self.values)
