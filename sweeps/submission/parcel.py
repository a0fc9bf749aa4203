"""The parcel that travels to the cluster: this very code, the spec, the arguments and the tokens, in one folder.

The code is that of the process that submits, so a sweep that was started on the cluster may be resumed from here and
the other way round: the fingerprints agree. Packages of others (Ray, torch, MLflow ...) are the cluster's own.

Arguments and tokens lie in a file of the parcel, not in the job's command or runtime environment: those are shown to
everybody who can open the cluster's dashboard.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from dpcore.checks import InvalidValue
from sweeps.spec import SweepSpec
from sweeps.submission.order import OPERATORS, ORDER_FILE, SPEC_FILE, Order
from sweeps.util.fingerprint import packages

PACKAGES = ("dpcore", "trainables", "sweeps")


def taken_from_here(names: Iterable[str]) -> dict[str, str]:
    """The values of these environment variables. Raises InvalidValue for one that is not set."""
    for name in names:
        if name == OPERATORS:
            raise InvalidValue("env", name, "a variable that is not the cluster operator's own")
        if name not in os.environ:
            raise InvalidValue("env", name, "the name of a variable that is set here", f"Try: export {name}=...")
    return {name: os.environ[name] for name in names}


def check_references(spec: SweepSpec) -> None:
    """Data travel by reference: a path has to mean the same on the cluster. Raises InvalidValue for a relative one."""
    path = spec.data.options().get("path")
    if isinstance(path, str) and "://" not in path and not Path(path).is_absolute():
        remedy = "The cluster reads the data itself; nothing but code and spec is sent."
        raise InvalidValue("data.path", path, "an absolute path on the cluster, or an object-store URL", remedy)


def pack(folder: Path, order: Order, spec: SweepSpec | None, modules: Iterable[str] = ()) -> None:
    """Fill the empty `folder`. `modules` are the user's own, as `SweepSpec.user_modules` names them.

    Raises InvalidValue for a module that is not found here.
    """
    for name, package in {**packages(PACKAGES), **packages(modules, follow=True)}.items():
        _copy(name, package, folder)
    if spec is not None:
        # JSON is YAML.
        (folder / SPEC_FILE).write_text(json.dumps(spec.canonical(), indent=1))
    descriptor = os.open(folder / ORDER_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        json.dump(asdict(order), stream)


def _copy(name: str, package: Path, folder: Path) -> None:
    if not package.is_dir():
        shutil.copy(package, folder / package.name)
        return
    shutil.copytree(
        package, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", ".*"), dirs_exist_ok=True
    )
