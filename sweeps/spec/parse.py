"""Reading a spec: it becomes one frozen value, or is refused with every problem at once.

`load_spec` either returns a SweepSpec or raises SpecErrors with every problem at once. The returned spec is canonical:
defaults of the systems filled in, numbers of the right type, epsilons ascending, goals spelled out, so that two
spellings of one sweep are equal and have one digest.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

import yaml
from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from dpcore.checks import InvalidValue
from sweeps.spec import rules
from sweeps.spec.domains import Constraint
from sweeps.spec.hyperparameters import read_systems, renamed
from sweeps.spec.problems import Problems, SpecError, SpecErrors, check_no_blanks, check_no_secrets
from sweeps.spec.sections import FUNCTION, PRIVACY, RELEASES, SCOPES, Data, Section, SweepSpec, privacy_kind
from sweeps.util.text import closest, did_you_mean
from trainables.data import SOURCES
from trainables.data.options import EXPECTED, InvalidOptions
from trainables.data.source import FeaturedSource
from trainables.registry import SYSTEMS
from trainables.system import DatasetSpec

_MARKS = ("systems", "privacy", "objectives", "search")
"""Sections that make a document a spec: files of records may have a `name` and `data` too."""
IGNORED = "x-"
"""Sections whose names begin so say nothing: they hold what YAML's anchors refer to."""
_KINDS = {str: "a text", list: "a list", bool: "a truth value"}


def load_spec(document: Mapping[str, Any]) -> SweepSpec:
    """The spec in a document (`sweeps.examples.load` reads files and texts). Raises SpecErrors with every problem.

    Sections whose names begin with `x-` are ignored.
    """
    raw = sections_of(document)
    problems = Problems()
    check_no_secrets(raw, problems)
    problems.raise_any()
    raw = {key: value for key, value in raw.items() if not key.startswith(IGNORED)}
    check_no_blanks(raw, problems)
    problems.raise_any()
    fields = SweepSpec.model_fields
    for key in raw:
        if key not in fields:
            problems.add(key, raw[key], "a section of a spec", did_you_mean(key, fields))
    read = {key: _read_section(key, raw, field, problems) for key, field in fields.items() if key != "systems"}
    draft = _draft(raw, read, problems)
    rules.check(draft, problems)
    problems.raise_any()
    return _completed(draft, read)


def _completed(draft: rules.Draft, read: dict[str, Any]) -> SweepSpec:
    """The spec with everything spelled out."""
    search, chosen = read["search"], draft["chosen"]
    privacy = read["privacy"].model_copy(update={"epsilon": tuple(sorted(read["privacy"].epsilon))})
    stopping = read["early_stopping"]
    first = rules.first_points(search, privacy, stopping, draft["knobs"], draft["relations"], Problems())
    # What `auto` comes to where no result may lead the search.
    fixed = {"sampler": "random"} if draft["kind"] in ("final", *rules.SEALED_KINDS) else {}
    asked = [metric for _, metric in draft["asked"]]
    return SweepSpec(
        **read
        | {
            "systems": dict(draft["knobs"]),
            "privacy": privacy,
            "search": search.model_copy(update={"first": first, **fixed}),
            "early_stopping": None if stopping is None else stopping.filled(search.trials),
            "objectives": tuple(
                one.model_copy(update={"goal": one.goal or rules.goal_of(one.metric, chosen)})
                for one in read["objectives"]
            ),
            "constraints": tuple(Constraint.parse(one).text for one in read["constraints"]),
            "front": rules.references(read["front"], privacy, read["limits"], chosen, draft["facts"], asked),
        }
    )


def _draft(raw: Mapping[str, Any], read: Mapping[str, Any], problems: Problems) -> rules.Draft:
    broken, data = rules.BROKEN, read["data"]
    written = raw.get("privacy") if isinstance(raw.get("privacy"), Mapping) else {}
    facts = None if data is broken else _facts(data, problems)
    knobs = {}
    if "systems" in raw:
        # What a broken privacy section asks to be solved counts too, so that its errors raise no others.
        solve = written.get("solve", "noise") if written else None
        knobs = read_systems(raw["systems"], solve if solve in ("noise", "steps", "none") else None, facts, problems)
    else:
        problems.add("systems", None, "a mapping from system names to knobs", "Add `systems:`.")
    source = None if facts is None else SOURCES[data.source]
    chosen = [SYSTEMS[name] for name in knobs]
    objectives, report, constraints = (
        () if read[name] is broken else read[name] for name in ("objectives", "report", "constraints")
    )
    asked = [(f"objectives.{i}.metric", one.metric) for i, one in enumerate(objectives)]
    wrong = any(rules.relations_speak_of_knobs(constraints, knobs, chosen))
    return {
        **read,
        "kind": privacy_kind(written),
        "written": written,
        "knobs": knobs,
        "chosen": chosen,
        "facts": broken if facts is None else facts,
        "facts_or_none": facts,
        "part": source.part(data.options()) if isinstance(source, FeaturedSource) else None,
        "asked": [*asked, *((f"report.{i}", metric) for i, metric in enumerate(report))],
        "relations": () if wrong else constraints,
    }


def sections_of(document: Any) -> dict[str, Any]:
    """The sections of a document by name. Raises SpecErrors for one that is no spec, and quotes nothing of it.

    A file of records that is taken for a spec by mistake is not to be printed.
    """
    if isinstance(document, Mapping):
        sections = {str(key): value for key, value in document.items()}
        if not sections or not sections.keys().isdisjoint(_MARKS):
            return sections
        kind = f"a mapping without {', '.join(_MARKS)}"
    elif document is None:
        kind = "nothing"
    else:
        kind = _KINDS.get(type(document), "a number")
    expected = "a mapping with the keys name, data, systems, privacy, objectives, search"
    raise SpecErrors([SpecError("document", kind, expected, "Start from `sweeps/examples/toy.yaml`.")])


def public_facts(spec: SweepSpec) -> DatasetSpec:
    """The public facts of the spec's data; reads no record."""
    return SOURCES[spec.data.source].facts(spec.data.options())


def _read_section(key: str, raw: dict[str, Any], field: FieldInfo, problems: Problems) -> Any:
    if key not in raw or (raw[key] is None and not field.is_required()):
        if field.is_required():
            problems.add(key, None, "this section", f"Add `{key}:`.")
            return rules.BROKEN
        return field.get_default(call_default_factory=True)
    annotated: Any = Annotated[field.annotation, field]
    try:
        return TypeAdapter(annotated).validate_python(raw[key])
    except ValidationError as error:
        for one in error.errors(include_url=False):
            _note(key, raw, field, one, problems)
        return rules.BROKEN


_EXPECTED = EXPECTED | {
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_parsing": "true or false",
    "string_pattern_mismatch": "letters, digits, dots, dashes or underscores, at most 100, a letter or digit first",
    "string_too_short": "a reason of at least {min_length} characters",
    "too_short": "at least one entry",
    "too_long": "one budget: that of everything that leaves",
    "value_error": "{error}",
}
"""What was expected, by pydantic's type of an error."""
_OWNERS = dict.fromkeys(PRIVACY["trial"].model_fields, "`scope: trial`")
_OWNERS |= dict.fromkeys(PRIVACY["total"].model_fields, "`scope: sweep` and `release: all`")
"""The one kind of a privacy section that has a key, where there is one."""


def _note(key: str, raw: Mapping[str, Any], field: FieldInfo, error: Any, problems: Problems) -> None:
    """One of pydantic's errors in our words."""
    location = [str(part) for part in error["loc"] if str(part) not in ("constrained-str", "function-before")]
    known = _section_keys(field.annotation)
    if key == "privacy":
        # First comes the kind of the section.
        kind = location.pop(0)
        known = list(PRIVACY[kind].model_fields)
        name = location[0] if location else ""
        if name in ("scope", "release") and error["type"] == "literal_error":
            _note_kind(name, raw[key], error["input"], problems)
            return
        if error["type"] == "extra_forbidden" and (owner := _OWNERS.get(name)):
            problems.add(f"privacy.{name}", error["input"], f"left out without {owner}: no other has it", "Drop it.")
            return
    path, value, context = ".".join([key, *location]), error["input"], error.get("ctx", {})
    match error["type"]:
        case "too_short" if value:
            return  # pydantic counts the entries that stand, and what is wrong with the others was said
        case "extra_forbidden":
            problems.add(path, value, f"a key of `{key}`", did_you_mean(location[-1], known))
        case "missing":
            problems.add(path, None, "a value", f"Add `{location[-1]}:` to `{key}`.")
        case "literal_error" | "enum":
            expected = context["expected"]
            problems.add(path, value, f"one of {expected}", closest(value, re.findall(r"'([^']*)'", expected)))
        case "string_type":
            problems.add(path, value, "a text", "Quote it." if not isinstance(value, Mapping | list) else "")
        case "model_type" | "model_attributes_type" | "dict_type":
            problems.add(path, value, "a mapping with the keys " + ", ".join(known))
        case "invalid_key":
            # Of `{n: 1,000}`: YAML reads 000 as another key.
            remedy = f"A comma ends an entry: write a number without one, or quote {value!r} if it is a key."
            problems.add(key, value, "keys that are texts", remedy)
        case kind if kind in _EXPECTED:
            problems.add(path, value, _EXPECTED[kind].format_map(context))
        case _:
            problems.add(path, value, error["msg"][0].lower() + error["msg"][1:])


def _note_kind(name: str, written: Mapping[str, Any], value: object, problems: Problems) -> None:
    """A scope or a release that is none, or none beside the other."""
    words = SCOPES if name == "scope" else RELEASES
    if value not in words or written.get("scope") == "sweep":
        listed = f"{', '.join(map(repr, words[:-1]))} or {words[-1]!r}"
        problems.add(f"privacy.{name}", value, f"one of {listed}", closest(value, words))
    else:
        which = "trials are on the front" if value == "front" else f"trial is {value}"
        expected = f"all, or `scope: sweep` beside it: which {which} is a result of the whole search"
        problems.add("privacy.release", value, expected, "Add `scope: sweep`.")


def _section_keys(annotation: Any) -> list[str]:
    if isinstance(annotation, type) and issubclass(annotation, Section | Data):
        return list(annotation.model_fields)
    return [key for part in get_args(annotation) for key in _section_keys(part)]


def _facts(data: Data, problems: Problems) -> DatasetSpec | None:
    own = FUNCTION.fullmatch(data.source)
    if data.source not in SOURCES and not own:
        problems.add("data.source", data.source, "the name of a data source", did_you_mean(data.source, SOURCES))
        return None
    try:
        return SOURCES[data.source].facts(data.options())
    except InvalidValue as error:
        for one in error.errors if isinstance(error, InvalidOptions) else (error,):
            path = one.name if one.name.startswith("data.") else f"data.{one.name}"
            problems.add(path, one.value, one.expected, one.remedy)
    except OSError as error:
        problems.add("data", data.options, "files that can be read", f"{error.strerror}: {error.filename}.")
    except Exception as error:
        mapped = data.feature_map if FUNCTION.fullmatch(data.feature_map) else ""
        if not own and not mapped:
            raise
        wrong = f"a module that can be imported ({type(error).__name__}: {error})"
        problems.add("data.features" if mapped else "data.source", mapped or data.source, wrong)
    return None


# Systems and data sources given as objects in Python: each by the name under which it can be imported, in the spec's
# own words.

_MAIN = "__main__"


def with_own(document: dict[str, Any], systems: Iterable[Any], sources: Iterable[Any]) -> dict[str, Any]:
    """`document`, which may call systems and a data source that are given by their own names, with `module:object`
    instead.

    systems, sources  classes, objects, or texts `module:object`

    Raises InvalidValue for one that a worker could not import, one that the spec does not name, and one whose own name
    is another's.
    """
    written, data = document.get("systems"), document.get("data")
    if isinstance(written, Mapping):
        for place, own in _named("systems", systems, written, SYSTEMS):
            written = {place if name == own else name: renamed(knobs, own, place) for name, knobs in written.items()}
        document = {**document, "systems": dict(written)}
    if isinstance(data, Mapping):
        for place, _ in _named("sources", sources, (data.get("source"),), SOURCES):
            document = {**document, "data": {**data, "source": place}}
    return document


def _named(
    what: str, several: Iterable[Any], written: Collection[Any], others: Collection[str]
) -> Iterator[tuple[str, str]]:
    """`module:object` of each, and the name that it calls itself by. Raises InvalidValue for `what` was given.

    written  what the spec names;  others  names that are taken
    """
    for given in several:
        place = given if isinstance(given, str) else _place(what, given)
        if not FUNCTION.fullmatch(place):
            raise InvalidValue(what, place, "a class, an object, or `module:object`")
        own = getattr(given, "name", place.partition(":")[2])
        if place in written:
            continue
        if own in others:
            raise InvalidValue(what, place, f"a name of its own: {own!r} is another's", "Rename it.")
        if own not in written:
            named = "`systems:` names" if what == "systems" else "`data.source` names"
            raise InvalidValue(what, place, f"one that the spec's {named}, as {own!r} or {place!r}")
        yield place, own


def _place(what: str, given: Any) -> str:
    """`module:object` of a class, or of an object that its module has a name for. Raises InvalidValue."""
    kind = given if isinstance(given, type) else type(given)
    if kind.__module__ != _MAIN:
        module = sys.modules.get(kind.__module__) or importlib.import_module(kind.__module__)
        for name, value in vars(module).items():
            if value is given:
                return f"{kind.__module__}:{name}"
    place = "my_systems" if kind.__module__ == _MAIN else kind.__module__
    expected = f"something that {place} has a name for: another process imports it by that, and no script"
    remedy = f"Name it at the top level of a file, as of my_systems.py, and `from my_systems import {kind.__name__}`."
    raise InvalidValue(what, repr(given), expected, remedy)


# YAML as people mean it: the scalars of YAML 1.2, and a repeated key is an error.
#
# PyYAML reads YAML 1.1, where `1e-5` is a text, `no` and `on` are truth values, `1:30` is ninety and `010` is eight.
# Here `1e-5` is a number, only `true` and `false` are truth values, and dates stay texts.


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (PyYAML's own way to declare resolvers)

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.repeated: list[tuple[str, int]] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                if key.value in seen:
                    self.repeated.append((key.value, key.start_mark.line + 1))
                seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


_FLOAT = r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
for _kind, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", _FLOAT, list("-+.0123456789")),
    ("merge", r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(f"^(?:{_pattern})$"), _first)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value, 10))


def read_document(text: str) -> Any:
    """The document as plain values. Raises SpecErrors: broken YAML by its line, and every repeated key."""
    problems = Problems()
    try:
        loader = _Loader(text)
        document = loader.get_single_data()
        # No value that stands in itself, nor one deeper than Python goes.
        json.dumps(document, default=str, skipkeys=True)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f"line {mark.line + 1}" if mark is not None else "document"
        what = getattr(error, "problem", None) or str(error)
        problems.add(line, what, "valid YAML", "Check indentation, colons and brackets there.")
    except RecursionError:
        problems.add("document", "values in values", "fewer levels of them")
    except (ValueError, TypeError, KeyError) as error:
        problems.add("document", str(error), "values that fit their tags", "No spec needs `!!`, or so many digits.")
    else:
        for key, number in loader.repeated:
            remedy = "Only the last of two would count: remove or rename one."
            problems.add(f"line {number}", key, "each key once", remedy)
    problems.raise_any()
    return document


def read_file(path: Path) -> Any:
    """The document in a file. Raises SpecErrors, InvalidValue where it is no text in UTF-8, and OSError."""
    try:
        # An editor of Windows may begin a file with a mark.
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        expected = f"YAML text in UTF-8 ({error.reason} at byte {error.start})"
        raise InvalidValue("spec", str(path), expected) from error
    return read_document(text)
