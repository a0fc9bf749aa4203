"""Packaged example specs: `sweeps run NAME` finds them here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from dpcore.checks import InvalidValue
from sweeps.process.suggestions import closest
from sweeps.spec import SweepSpec, load_spec, sections_of
from sweeps.spec.errors import Problems
from sweeps.spec.yaml_text import read_yaml


def example_names() -> list[str]:
    """Names of the packaged examples."""
    return sorted(Path(one.name).stem for one in files(__name__).iterdir() if one.name.endswith(".yaml"))


def load_example_or_file(
    spec: str,
    *,
    data: Path | None = None,
    trials: int | None = None,
    seed: int | None = None,
    changes: Sequence[str] = (),
) -> SweepSpec:
    """The spec of a file or of a packaged example, with the command line's overrides applied before validation.

    changes  "path.to.key=VALUE" each, VALUE in YAML, applied in order
    Raises InvalidValue when there is neither such a file nor such an example, or for a change that is none; SpecErrors
    for a bad spec.
    """
    path = Path(spec)
    if path.is_file():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise InvalidValue("spec", spec, f"YAML text in UTF-8 ({error.reason} at byte {error.start})") from error
    elif spec in example_names():
        text = files(__name__).joinpath(f"{spec}.yaml").read_text(encoding="utf-8")
    else:
        names = example_names()
        raise InvalidValue("spec", spec, f"a file, or one of the examples {', '.join(names)}", closest(spec, names))
    raw = read_yaml(text, problems := Problems())
    problems.raise_any()
    raw = sections_of(raw)
    for section, key, value in _overrides(data, trials, seed):
        before = raw.get(section) or {}
        # A section of another kind is left for the validation to name.
        if isinstance(before, dict):
            raw[section] = {**before, key: value}
    for change in changes:
        _apply(raw, change)
    return load_spec(raw)


def _apply(raw: dict[str, Any], change: str) -> None:
    path, equals, text = change.partition("=")
    *sections, key = path.split(".")
    if not equals or not all([*sections, key]):
        raise InvalidValue("--set", change, "path.to.key=VALUE", "For example privacy.epsilon=2, or search.trials=10.")
    place = raw
    for section in sections:
        inner = place.get(section)
        if inner is not None and not isinstance(inner, dict):
            raise InvalidValue("--set", change, f"a path through sections; {section} is {inner!r}")
        place[section] = place = {} if inner is None else dict(inner)
    value = read_yaml(text, problems := Problems())
    problems.raise_any()
    place[key] = value


def _overrides(data: Path | None, trials: int | None, seed: int | None) -> Iterator[tuple[str, str, Any]]:
    if data is not None:
        yield "data", "path", str(data.absolute())
    if trials is not None:
        yield "search", "trials", trials
    if seed is not None:
        yield "search", "seed", seed
