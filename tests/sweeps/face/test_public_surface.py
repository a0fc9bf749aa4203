"""What `import sweeps` offers is frozen: a name or an argument that goes, or moves, breaks somebody's script.

A change that is meant: `python -m tests.sweeps.face.test_public_surface` writes the list anew.
"""

from __future__ import annotations

import inspect
import tomllib
from pathlib import Path

import yaml

import sweeps
from sweeps.sweep import ParetoFront

FROZEN = Path(__file__).with_name("public_surface.yaml")
ROOT = Path(__file__).parents[3]


def arguments(call):
    """Each with its kind and default, as a reader of the signature sees them; without types."""
    parameters = inspect.signature(call).parameters.values()
    return [
        str(one.replace(annotation=inspect.Parameter.empty)) + ("" if _by_place(one) else " (by name)")
        for one in parameters
    ]


def _by_place(parameter):
    return parameter.kind is not inspect.Parameter.KEYWORD_ONLY


def members(kind):
    """{public member: its arguments, or what it is}."""
    public = {name: value for name, value in vars(kind).items() if not name.startswith("_") or name == "_repr_html_"}
    return {name: arguments(value) if inspect.isfunction(value) else "attribute" for name, value in public.items()}


def surface():
    found = {}
    for name in sweeps.__all__:
        value = getattr(sweeps, name)
        found[name] = members(value) if inspect.isclass(value) else arguments(value)
    return found | {"ParetoFront": members(ParetoFront)}


def test_the_public_surface_is_as_it_was_frozen():
    assert surface() == yaml.safe_load(FROZEN.read_text())


def test_no_name_is_that_of_a_package_inside():
    """Importing `sweeps.budget` makes `sweeps.budget` that package, whatever it was before."""
    inside = {one.stem for one in Path(sweeps.__file__).parent.iterdir()}
    assert not inside & set(sweeps.__all__)


def test_an_argument_that_goes_is_seen(monkeypatch):
    """The mutant."""
    frozen = surface()
    monkeypatch.setattr(sweeps.Sweep, "best", lambda self: None)
    assert surface() != frozen


def test_each_package_says_that_it_is_typed():
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    for package in ("dpcore", "trainables", "sweeps"):
        assert (ROOT / package / "py.typed").is_file()
        assert "py.typed" in data[package]


if __name__ == "__main__":
    FROZEN.write_text(yaml.safe_dump(surface(), sort_keys=True, width=120))
