"""What is frozen and how: each part of the corpus as plain values, written to `frozen/` or compared with it.

    python -m tests.corpus.freeze plans fits ...     writes these parts anew (all of them without a name)

Numbers are exact: floats are written as their shortest repr. Arrays are written as a digest of their bytes beside four
sums with fixed signs, by which they are compared on other machines.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from tests.corpus import cases, doors

FROZEN = Path(__file__).parent / "frozen"
DATA = Path(os.environ.get("SWEEPS_DATA", Path(__file__).parents[3] / "shared" / "data"))
SIGNS = 4
PROPOSALS = 3
FOLDER = "DATA"
"""Stands for a folder of data wherever a frozen value names one."""


def machine() -> dict[str, str]:
    """What the last digits of a training depend on."""
    import scipy
    import torch

    return {
        "processor": platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def plans() -> Iterator[tuple[str, Any]]:
    """Every system under both adjacencies and every `solve`; some at the size of MNIST."""
    blobs, values = doors.blobs(60, 40), doors.SOURCES["uniform"].facts({"n": 50})
    for name, case in cases.CASES.items():
        facts = values if case.system == "noisy-mean" else blobs.facts
        for adjacency in cases.ADJACENCIES:
            for solve in cases.SOLVES:
                yield f"{name} / {adjacency} / {solve}", doors.outcome(_planned(case, facts, adjacency, solve))
    large = doors.SOURCES["mnist"].facts({"path": str(FROZEN)})
    for system, config in cases.LARGE.items():
        for epsilon, delta in cases.BUDGETS:
            case = cases.Case(system, config, None, epsilon, delta)
            yield f"{system} / mnist / {epsilon:g}", doors.outcome(_planned(case, large, "add-remove", "noise"))


def _planned(case: cases.Case, facts: Any, adjacency: str, solve: str) -> Any:
    knob = doors.noise_knob(case.system)
    given = {knob: case.noise} if case.noise is not None and knob is not None and solve != "noise" else {}
    return doors.planned(
        case.system,
        {**case.config, **given},
        facts,
        epsilon=case.epsilon,
        delta=case.delta,
        adjacency=adjacency,
        solve=solve,
    )


def fits() -> Iterator[tuple[str, Any]]:
    """Two steps of every case, the same to its end, and the rest of it by another attempt from the state after two."""
    blobs, values = doors.blobs(60, 40), doors.SOURCES["uniform"].load({"n": 50})
    for name, case in cases.CASES.items():
        data = values if case.system == "noisy-mean" else blobs
        options = [(adjacency, solve) for solve in cases.SOLVES for adjacency in cases.ADJACENCIES]
        plan = next(
            found for one in options if isinstance(found := _planned(case, data.facts, *one), doors.PrivacyPlan)
        )
        whole = doors.fitted(plan, data)
        yield f"{name} / whole", written(whole)
        if plan.steps > 2:
            two = doors.fitted(plan, data, to_step=2)
            yield f"{name} / two steps", written(two)
            rest = doors.fitted(plan, data, from_step=2, state=two["arrays"], attempt=2)
            yield f"{name} / the rest", written(rest)


def sources() -> Iterator[tuple[str, Any]]:
    """The public facts of every source."""
    for source, several in cases.SOURCES.items():
        for options in several:
            yield _named(source, options), doors.facts_document(source, _placed(source, options, FROZEN))


def records() -> Iterator[tuple[str, Any]]:
    """The records of every source that can be read here: packaged ones, and those below SWEEPS_DATA."""
    for source, several in cases.SOURCES.items():
        for options in several:
            alone = "path" not in _placed(source, options, FROZEN)
            if alone or _present(source, options):
                yield _named(source, options), written(doors.loaded_document(source, _placed(source, options, DATA)))


def _present(source: str, options: Mapping[str, Any]) -> bool:
    name = str(options.get("of", source))
    names = {"adult": "adult" if options.get("form") == "raw" else "a9a"}
    return (DATA / names.get(name, name)).is_dir()


def _placed(source: str, options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    packaged = {"digits", "uniform"}
    return dict(options) if {source, options.get("of")} & packaged else {**options, "path": str(folder)}


def _named(source: str, options: Mapping[str, Any]) -> str:
    return " ".join([source, *(f"{name}={value}" for name, value in options.items())])


def specs() -> Iterator[tuple[str, Any]]:
    """The packaged examples and the corpus's own sweeps: canonical spec, digest, and their first proposals' plans."""
    for path in sorted(doors.EXAMPLES.glob("*.yaml")):
        yield path.stem, doors.spec_document(path, 3 * PROPOSALS)
    for name, raw in cases.SWEPT.items():
        yield name, doors.spec_document({"name": "corpus", **raw}, PROPOSALS)
    with tempfile.TemporaryDirectory() as folder:
        document = doors.spec_document(_table(Path(folder)), 2 * PROPOSALS)
        # It is one of the folder, too.
        del document["digest"]
        yield "persons", without(folder, document)


def _table(folder: Path) -> dict[str, Any]:
    path = folder / "people.csv"
    path.write_text(cases.table_rows())
    return {**cases.TABLE, "data": {**cases.TABLE["data"], "path": str(path)}}


def sweeps() -> Iterator[tuple[str, Any]]:
    """The packaged examples in small, the corpus's own sweeps and one per person: trials, ledger, front, text."""
    raws = {name: _small(name, changes) for name, changes in cases.SMALL.items()}
    for name, raw in (raws | cases.SWEPT).items():
        with tempfile.TemporaryDirectory() as root:
            yield name, without(root, doors.swept({"name": "corpus", **raw}, Path(root)))
    with tempfile.TemporaryDirectory() as root:
        yield "persons", without(root, doors.swept(_table(Path(root)), Path(root)))


def _small(example: str, changes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    import yaml

    raw = yaml.safe_load((doors.EXAMPLES / f"{example}.yaml").read_text())
    return {**raw, **{section: {**raw[section], **values} for section, values in changes.items()}}


def published() -> Iterator[tuple[str, Any]]:
    """The specs behind every published number, as digests, with the plans of their first proposals."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("a9a", "abalone", "cifar10", "german_credit", "imdb", "location", "mnist", "movielens_1m"):
            (Path(folder) / name).mkdir()
        seen: dict[str, int] = {}
        for spec in doors.published_specs(Path(folder)):
            document = without(folder, doors.spec_document(spec, PROPOSALS))
            del document["digest"]
            number = seen[spec.name] = seen.get(spec.name, 0) + 1
            yield f"{spec.name} {number}", brief(document)


def claims() -> Iterator[tuple[str, Any]]:
    """What a reproduction states without data."""
    for paper in doors.PAPERS:
        with tempfile.TemporaryDirectory() as root:
            yield paper, without(root, doors.published_claims(paper, Path(root)))


PARTS: dict[str, Callable[[], Iterator[tuple[str, Any]]]] = {
    one.__name__: one for one in (plans, sources, specs, fits, records, sweeps, published, claims)
}
"""{name of the part and of its file in `frozen/`: what makes it}, cheap ones first."""
CHEAP = ("plans", "sources", "specs", "fits")


def brief(document: Mapping[str, Any]) -> dict[str, Any]:
    """A spec as a digest and, of its proposals, what they claim."""
    return {
        "canonical": digest(document["canonical"]),
        "proposals": [
            {
                "config": digest(one["config"]),
                "outcome": digest(one["outcome"]),
                "claim": [
                    [claim["accountant"], claim["epsilon"], claim["delta"]]
                    for plan in [one["outcome"].get("plan")]
                    if plan is not None
                    for claim in (plan["claim"], *plan["beside"])
                ],
            }
            for one in document["proposals"]
        ],
    }


def digest(value: Any) -> str:
    """Sixteen letters that stand for a plain value, its numbers to eight digits: the last ones are a machine's own."""
    return hashlib.sha256(json.dumps(_rounded(value), sort_keys=True).encode()).hexdigest()[:16]


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.8g}")
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value


def written(document: Mapping[str, Any]) -> dict[str, Any]:
    """A document whose `arrays` are written down."""
    return {**document, "arrays": {name: array(np.asarray(one)) for name, one in sorted(document["arrays"].items())}}


def array(values: np.ndarray) -> dict[str, Any]:
    """The digest of an array's bytes, and its sums under four fixed patterns of signs."""
    known = hashlib.sha256(f"{values.dtype.str}{values.shape}".encode() + np.ascontiguousarray(values).tobytes())
    out: dict[str, Any] = {"shape": list(values.shape), "type": values.dtype.str, "bits": known.hexdigest()[:16]}
    if values.dtype.kind in "fiub":
        flat = values.astype(np.float64).ravel()
        signs = np.random.default_rng(11).choice([-1.0, 1.0], size=(SIGNS, 1 + flat.size % 1009))
        repeated = np.resize(signs, (SIGNS, flat.size)) if flat.size else np.zeros((SIGNS, 0))
        out["sums"] = [float(one) for one in repeated @ flat]
        out["size"] = float(np.abs(flat).sum())
    return out


def without(folder: str, value: Any) -> Any:
    """A plain value in which no folder of this machine is named, and each module as it was called."""
    text = json.dumps(value, default=str).replace(folder, FOLDER)
    for now, then in doors.MOVED.items():
        text = text.replace(now, then)
    return json.loads(text)


def one_thread() -> threadpool_limits:
    """Libraries add in one order, however many cores there are: else a singular vector has other last digits."""
    return threadpool_limits(limits=1)


def plain(value: Any) -> Any:
    """As JSON gives it back: tuples as lists, infinities kept."""
    return json.loads(json.dumps(value))


def main(names: list[str]) -> None:
    """Write parts of the corpus."""
    FROZEN.mkdir(exist_ok=True)
    for name in names or list(PARTS):
        with one_thread():
            values = plain(dict(PARTS[name]()))
        lines = [f"{json.dumps(key)}:{json.dumps(value, separators=(',', ':'))}" for key, value in values.items()]
        head = json.dumps({"machine": machine()})[1:-1]
        (FROZEN / f"{name}.json").write_text(f'{{{head},"values":{{\n' + ",\n".join(lines) + "\n}}\n")
        print(f"{name}: {len(values)} values")


if __name__ == "__main__":
    main(sys.argv[1:])
