"""What a person asks for: one frozen value, read whole, refused whole.

`load_spec` reads a file, a YAML text or a mapping and either returns a SweepSpec or raises SpecErrors with every
problem at once. The returned spec is canonical: defaults of the systems filled in, numbers of the right type,
epsilons ascending, goals spelled out, so that two spellings of one sweep are equal and have one digest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from dpcore.checks import InvalidValue
from sweeps.process.suggestions import closest, did_you_mean
from sweeps.spec.checks import (
    check_budgets,
    check_delta,
    check_objectives,
    check_processes,
    check_search,
    check_stalls,
    check_tracking,
    check_unavailable,
    check_units,
    check_validation,
    goal_of,
)
from sweeps.spec.errors import Problems, SpecError, SpecErrors
from sweeps.spec.knobs import read_systems
from sweeps.spec.model import (
    Data,
    EarlyStopping,
    Limits,
    Objective,
    Privacy,
    Resources,
    Search,
    Section,
    SpecChange,
    SpecDiff,
    SweepSpec,
    diff,
)
from sweeps.spec.raw import check_raw_measures
from sweeps.spec.references import check_references, references
from sweeps.spec.reported import check_reported
from sweeps.spec.secrecy import check_no_secrets
from sweeps.spec.yaml_text import read_yaml
from trainables.system import DataSource, PublicFacts, System

__all__ = [
    "Data",
    "EarlyStopping",
    "Limits",
    "Objective",
    "Privacy",
    "Resources",
    "Search",
    "SpecChange",
    "SpecDiff",
    "SpecError",
    "SpecErrors",
    "SweepSpec",
    "diff",
    "load_spec",
    "public_facts",
]


_TELLING = ("systems", "privacy", "objectives", "search")
"""Sections that make a document a spec: files of records may have a `name` and `data` too."""
_KINDS = {str: "a text", list: "a list", bool: "a truth value"}


def load_spec(
    source: str | Path | Mapping[str, Any],
    *,
    systems: Mapping[str, System] | None = None,
    sources: Mapping[str, DataSource] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> SweepSpec:
    """The spec in a file (a Path, or a text without a line break that names one), a YAML text, or a mapping.

    systems, sources  registries to check against; the installed ones by default
    overrides         {"search.trials": 10}: put in before anything is checked

    Raises SpecErrors with every problem found, FileNotFoundError or PermissionError for a file that cannot be read.
    """
    problems = Problems()
    raw = _read(source, problems)
    problems.raise_any()
    raw = sections_of(raw)
    for path, value in (overrides or {}).items():
        raw = _overridden(raw, path.split("."), value)
    check_no_secrets(raw, problems)
    problems.raise_any()
    systems = _installed_systems() if systems is None else systems
    sources = _installed_sources() if sources is None else sources

    fields = SweepSpec.model_fields
    for key in raw:
        if key not in fields:
            problems.add(key, raw[key], "a section of a spec", did_you_mean(key, fields))
    sections = {key: _read_section(key, raw, field, problems) for key, field in fields.items() if key != "systems"}

    data, privacy, search = sections["data"], sections["privacy"], sections["search"]
    facts = _facts(data, sources, problems) if isinstance(data, Data) else None
    solve = privacy.solve if isinstance(privacy, Privacy) else _solve_meant(raw.get("privacy"))
    if "systems" in raw:
        knobs = read_systems(raw["systems"], systems, solve, facts, problems)
    else:
        problems.add("systems", None, "a mapping from system names to knobs", "Add `systems:`.")
        knobs = {}
    chosen = [systems[name] for name in knobs]

    objectives = sections["objectives"]
    if isinstance(privacy, Privacy):
        check_budgets(privacy, problems)
        if facts is not None:
            check_units(privacy.unit, chosen, facts, problems)
    written = raw["privacy"] if isinstance(raw.get("privacy"), Mapping) else {}
    check_unavailable(written.get("scope"), written.get("release"), problems)
    if facts is not None:
        check_validation(chosen, facts, problems)
        check_delta(written.get("delta"), written.get("allow_large_delta"), facts, problems)
    if objectives is not None:
        check_objectives(objectives, chosen, facts, problems)
        if facts is not None:
            check_reported(objectives, chosen, facts, problems)
    check_raw_measures(
        objectives,
        knobs,
        {name: systems[name] for name in knobs},
        data,
        privacy,
        search,
        sections["early_stopping"],
        problems,
    )
    if isinstance(search, Search):
        check_search(
            search, knobs, sections["early_stopping"], None if objectives is None else len(objectives), problems
        )
    check_processes(sections["resources"], sections["execution"], chosen, problems)
    check_stalls(sections["limits"], sections["execution"], problems)
    if sections["tracking"] is not None and sections["tracking"].uri is not None:
        check_tracking(sections["tracking"].uri, problems)
    if sections["front"] is not None:
        check_references(sections["front"].reference, chosen, problems)
    problems.raise_any()

    sections["privacy"] = privacy.model_copy(update={"epsilon": tuple(sorted(privacy.epsilon))})
    sections["objectives"] = tuple(
        one.model_copy(update={"goal": one.goal or goal_of(one.metric, chosen)}) for one in objectives
    )
    sections["front"] = references(sections["front"], sections["privacy"], sections["limits"], chosen, facts)
    return SweepSpec(**sections, systems=knobs)


def sections_of(document: Any) -> dict[str, Any]:
    """The sections of a document by name. Raises SpecErrors for one that is no spec, and quotes nothing of it.

    A file of records that is taken for a spec by mistake is not to be printed.
    """
    if isinstance(document, Mapping):
        sections = {str(key): value for key, value in document.items()}
        if not sections or not sections.keys().isdisjoint(_TELLING):
            return sections
        kind = f"a mapping without {', '.join(_TELLING)}"
    elif document is None:
        kind = "nothing"
    else:
        kind = _KINDS.get(type(document), "a number")
    raise SpecErrors(
        [
            SpecError(
                "document",
                kind,
                "a mapping with the keys name, data, systems, privacy, objectives, search",
                "Start from `sweeps/examples/toy.yaml`.",
            )
        ]
    )


def public_facts(spec: SweepSpec, sources: Mapping[str, DataSource] | None = None) -> PublicFacts:
    """The public facts of the spec's data; reads no record."""
    known = _installed_sources() if sources is None else sources
    return known[spec.data.source].facts(spec.data.options())


def _read(source: str | Path | Mapping[str, Any], problems: Problems) -> Any:
    if isinstance(source, Mapping):
        return dict(source)
    if isinstance(source, str) and ("\n" in source or ": " in source or source.strip().endswith(":")):
        return read_yaml(source, problems)
    return read_yaml(Path(source).read_text(encoding="utf-8"), problems)


def _overridden(raw: Mapping[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    if len(path) == 1:
        return {**raw, path[0]: value}
    inner = raw.get(path[0])
    if inner is not None and not isinstance(inner, Mapping):
        return dict(raw)  # wrong already, and reported as such
    return {**raw, path[0]: _overridden(inner or {}, path[1:], value)}


def _solve_meant(privacy: Any) -> str | None:
    """What a broken privacy section asks to be solved, so that its errors raise no others."""
    solve = privacy.get("solve", "noise") if isinstance(privacy, Mapping) else None
    return solve if solve in ("noise", "steps", "none") else None


def _read_section(key: str, raw: dict[str, Any], field: FieldInfo, problems: Problems) -> Any:
    if key not in raw or (raw[key] is None and not field.is_required()):
        if field.is_required():
            problems.add(key, None, "this section", f"Add `{key}:`.")
            return None
        return field.get_default(call_default_factory=True)
    adapter: TypeAdapter[Any] = TypeAdapter(_annotation(field))
    try:
        return adapter.validate_python(raw[key])
    except ValidationError as error:
        for one in error.errors(include_url=False):
            _note(key, field, one, problems)
        return None


def _annotation(field: FieldInfo) -> Any:
    from typing import Annotated

    annotation: Any = field.annotation
    for extra in field.metadata:
        annotation = Annotated[annotation, extra]
    return annotation


def _note(key: str, field: FieldInfo, error: Any, problems: Problems) -> None:
    """One of pydantic's errors in our words."""
    location = [str(part) for part in error["loc"] if str(part) not in ("constrained-str", "function-before")]
    path, value, context = ".".join([key, *location]), error["input"], error.get("ctx", {})
    match error["type"]:
        case "extra_forbidden":
            known = _section_keys(field.annotation)
            problems.add(path, value, f"a key of `{key}`", did_you_mean(location[-1], known))
        case "missing":
            problems.add(path, None, "a value", f"Add `{location[-1]}:` to `{key}`.")
        case "literal_error" | "enum":
            expected = context["expected"]
            problems.add(path, value, f"one of {expected}", closest(value, re.findall(r"'([^']*)'", expected)))
        case "greater_than":
            problems.add(path, value, f"a number above {context['gt']:g}")
        case "greater_than_equal":
            problems.add(path, value, f"a number of at least {context['ge']:g}")
        case "less_than":
            problems.add(path, value, f"a number below {context['lt']:g}")
        case "less_than_equal":
            problems.add(path, value, f"a number of at most {context['le']:g}")
        case "finite_number":
            problems.add(path, value, "a finite number")
        case "float_parsing" | "float_type":
            problems.add(path, value, "a number")
        case "int_parsing" | "int_type" | "int_from_float":
            problems.add(path, value, "a whole number")
        case "bool_parsing" | "bool_type":
            problems.add(path, value, "true or false")
        case "string_type":
            problems.add(path, value, "a text", "Quote it." if not isinstance(value, Mapping | list) else "")
        case "string_pattern_mismatch":
            problems.add(
                path, value, "letters, digits, dots, dashes or underscores, at most 100, a letter or digit first"
            )
        case "string_too_short":
            problems.add(path, value, f"a reason of at least {context['min_length']} characters")
        case "too_short":
            problems.add(path, value, "at least one entry")
        case "value_error":
            problems.add(path, value, str(context["error"]))
        case "model_type" | "model_attributes_type" | "dict_type":
            problems.add(path, value, "a mapping with the keys " + ", ".join(_section_keys(field.annotation)))
        case "tuple_type":
            problems.add(path, value, "a list")
        case _:
            problems.add(path, value, error["msg"][0].lower() + error["msg"][1:])


def _section_keys(annotation: Any) -> list[str]:
    if isinstance(annotation, type) and issubclass(annotation, Section | Data):
        return list(annotation.model_fields)
    return [key for part in get_args(annotation) for key in _section_keys(part)]


def _facts(data: Data, sources: Mapping[str, DataSource], problems: Problems) -> PublicFacts | None:
    if data.source not in sources:
        problems.add("data.source", data.source, "the name of a data source", did_you_mean(data.source, sources))
        return None
    try:
        return sources[data.source].facts(data.options())
    except InvalidValue as error:
        path = error.name if error.name.startswith("data.") else f"data.{error.name}"
        problems.add(path, error.value, error.expected, error.remedy)
    except OSError as error:
        problems.add("data", data.options, "files that can be read", f"{error.strerror}: {error.filename}.")
    return None


def _installed_systems() -> Mapping[str, System]:
    from trainables.registry import SYSTEMS

    return SYSTEMS


def _installed_sources() -> Mapping[str, DataSource]:
    from trainables.data import SOURCES

    return SOURCES
