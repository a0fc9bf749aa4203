"""What an operator applies, read for the tests: documents, pods and containers of every manifest."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
INFRA = ROOT / "infra"
CLUSTERS = sorted((INFRA / "ray").glob("*.yaml"))
KUBERNETES = sorted((INFRA / "kubernetes").glob("*.yaml"))
KUBERAY = sorted((INFRA / "kuberay").glob("*.yaml"))
COMPOSE = INFRA / "compose" / "compose.yaml"
SCRIPTS = [INFRA / "slurm" / "sweep.sbatch", INFRA / "compose" / "databases.sh"]
CONTAINERFILE = INFRA / "image" / "Containerfile"

Document = dict[str, Any]


def documents(path: Path) -> list[Document]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one is not None]


def all_documents() -> list[Document]:
    return [one for path in (*KUBERNETES, *KUBERAY) for one in documents(path)]


def clusters_of(document: Document) -> Iterator[Document]:
    """The RayCluster specs inside a document."""
    if document["kind"] == "RayCluster":
        yield document["spec"]
    if document["kind"] == "RayJob":
        yield document["spec"]["rayClusterSpec"]


def pod_templates(document: Document) -> Iterator[Document]:
    """Every template of pods inside a document."""
    if document["kind"] in ("Deployment", "StatefulSet", "Job"):
        yield document["spec"]["template"]
    for cluster in clusters_of(document):
        yield cluster["headGroupSpec"]["template"]
        for group in cluster["workerGroupSpecs"]:
            yield group["template"]


def values(node: object, path: str = "") -> Iterator[tuple[str, str, object]]:
    """(path, last key, scalar) of every leaf."""
    if isinstance(node, Mapping):
        for key, inner in node.items():
            yield from values(inner, f"{path}.{key}")
    elif isinstance(node, list):
        for number, inner in enumerate(node):
            yield from values(inner, f"{path}[{number}]")
    else:
        yield path, re.split(r"\.|\[", path)[-1], node


def constraints() -> dict[str, str]:
    """{package: pinned version}."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.strip().split("==") for line in lines if "==" in line)


def project_version() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])
