"""Packaged example specs: `sweeps run NAME` finds them here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from dpcore.checks import InvalidValue
from sweeps.spec.parse import load_spec, read_document, read_file, sections_of, with_own
from sweeps.spec.problems import SpecErrors
from sweeps.spec.sections import SweepSpec
from sweeps.util.fingerprint import working_folder_is_importable
from sweeps.util.text import closest

Spec = str | Path | Mapping[str, Any] | SweepSpec
"""A file, the name of a packaged example, YAML text, nested mappings, or a spec that was loaded."""


def example_names() -> list[str]:
    """Names of the packaged examples."""
    return sorted(Path(one.name).stem for one in files(__name__).iterdir() if one.name.endswith(".yaml"))


def load(
    spec: Spec,
    *,
    data: str | Path | None = None,
    trials: int | None = None,
    seed: int | None = None,
    changes: Mapping[str, Any] | Sequence[str] = (),
    systems: Sequence[Any] = (),
    sources: Sequence[Any] = (),
) -> SweepSpec:
    """Read a spec, with overrides applied before it is checked.

    spec     a file, the name of a packaged example, YAML text, or nested mappings as YAML has them
    data     folder or file of the data set, instead of data.path
    trials, seed  instead of search.trials and search.seed
    changes  {"privacy.epsilon": 2}, or texts "privacy.epsilon=2": over the spec's own
    systems  classes or objects of one's own, which the spec calls by their names; each has to be importable
             from a file: a worker cannot import what a script or a notebook defines
    sources  likewise, a data source that `data.source` calls by its name

    Raises SpecErrors with every problem at once, InvalidValue where there is no such file or example, or for a change
    that is none.
    """
    working_folder_is_importable()
    file = None
    if isinstance(spec, Path) or (isinstance(spec, str) and "\n" not in spec and ": " not in spec):
        file, spec = (Path(spec) if Path(spec).is_file() else None), str(spec)
    try:
        raw = sections_of(_document(spec, file))
        path = None if data is None else str(Path(data).absolute())
        for section, key, value in (("data", "path", path), ("search", "trials", trials), ("search", "seed", seed)):
            before = raw.get(section) or {}
            # A section of another kind is left for the validation to name.
            if value is not None and isinstance(before, dict):
                raw[section] = {**before, key: value}
        for place, value in changes.items() if isinstance(changes, Mapping) else map(_parsed, changes):
            _apply(raw, place, value)
        return load_spec(with_own(raw, systems, sources))
    except SpecErrors as refused:
        raise refused if file is None else SpecErrors(refused.errors, where=str(file)) from None


def _document(spec: Spec, file: Path | None) -> Any:
    if isinstance(spec, SweepSpec):
        return spec.canonical()
    if not isinstance(spec, str):
        return spec
    if file is not None or "\n" in spec or ": " in spec:
        return read_document(spec) if file is None else read_file(file)
    names = example_names()
    if spec in names:
        return read_document(files(__name__).joinpath(f"{spec}.yaml").read_text(encoding="utf-8"))
    raise InvalidValue("spec", spec, f"a file, or one of the examples {', '.join(names)}", closest(spec, names))


def _parsed(change: str) -> tuple[str, Any]:
    path, equals, text = change.partition("=")
    if not equals or not all(path.split(".")):
        raise InvalidValue("--set", change, "path.to.key=VALUE", "For example privacy.epsilon=2, or search.trials=10.")
    return path, read_document(text)


def _apply(raw: dict[str, Any], path: str, value: Any) -> None:
    *sections, key = path.split(".")
    place = raw
    for section in sections:
        inner = place.get(section)
        if inner is not None and not isinstance(inner, dict):
            raise InvalidValue("--set", f"{path}={value}", f"a path through sections; {section} is {inner!r}")
        place[section] = place = {} if inner is None else dict(inner)
    place[key] = value
