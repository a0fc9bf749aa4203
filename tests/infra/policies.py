"""What every container of ours has to fulfil, as functions that name each breach."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tests.infra.manifests import Document, pod_templates, values

TELEMETRY = {"RAY_USAGE_STATS_ENABLED": "0", "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
OURS = "/private-sweeps:"
SENSITIVE = re.compile(r"(PASSWORD|PASSWD|SECRET|TOKEN|ACCESS_KEY|API_KEY|PRIVATE_KEY)", re.IGNORECASE)
# A word that names where a secret is, not what it is.
REFERENCE = re.compile(r"(_FILE|_PATH|_PREFIX|MODE)$", re.IGNORECASE)


def pod_breaches(template: Document) -> Iterator[str]:
    """Breaches of one template of pods."""
    pod = template["spec"]
    security = pod.get("securityContext", {})
    if security.get("runAsNonRoot") is not True or not security.get("runAsUser"):
        yield "pod: may run as root"
    if security.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "pod: no seccomp profile"
    if pod.get("automountServiceAccountToken") is not False:
        yield "pod: mounts a token of the cluster"
    if any(pod.get(name) for name in ("hostNetwork", "hostPID", "hostIPC")):
        yield "pod: shares the host's namespaces"
    for volume in pod.get("volumes", []):
        if "hostPath" in volume:
            yield f"{volume['name']}: a path of the host"
        if "emptyDir" in volume and "sizeLimit" not in volume["emptyDir"]:
            yield f"{volume['name']}: without a size limit"
    for container in (*pod.get("initContainers", []), *pod["containers"]):
        yield from (f"{container['name']}: {breach}" for breach in _container_breaches(container))


def _container_breaches(container: Document) -> Iterator[str]:
    security = container.get("securityContext", {})
    if security.get("allowPrivilegeEscalation") is not False or security.get("privileged"):
        yield "may gain privileges"
    if security.get("readOnlyRootFilesystem") is not True:
        yield "may write its root file system"
    if security.get("capabilities", {}).get("drop") != ["ALL"] or security["capabilities"].get("add"):
        yield "keeps capabilities"
    for kind in ("requests", "limits"):
        if set(container.get("resources", {}).get(kind, {})) < {"cpu", "memory"}:
            yield f"no {kind} of CPU and memory"
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        if probe not in container:
            yield f"no {probe}"
    yield from image_breaches(container["image"])
    environment = {one["name"]: one for one in container.get("env", [])}
    for name, one in environment.items():
        if SENSITIVE.search(name) and not REFERENCE.search(name) and "secretKeyRef" not in one.get("valueFrom", {}):
            yield f"{name}: not by reference"
    if OURS in container["image"]:
        literals = {name: one.get("value") for name, one in environment.items()}
        engines = {"RAY_USAGE_STATS_ENABLED"} if "ray" in container["name"] else set()
        for name in engines | {"MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"}:
            if literals.get(name) != TELEMETRY[name]:
                yield f"{name}: telemetry is not off"


def service_breaches(name: str, service: Document) -> Iterator[str]:
    """Breaches of one service of a compose file."""
    user = str(service.get("user", "0")).split(":")[0]
    if user in ("0", "root"):
        yield f"{name}: may run as root"
    if service.get("read_only") is not True:
        yield f"{name}: may write its root file system"
    if service.get("cap_drop") != ["ALL"] or service.get("cap_add") or service.get("privileged"):
        yield f"{name}: keeps capabilities"
    if "no-new-privileges:true" not in service.get("security_opt", []):
        yield f"{name}: may gain privileges"
    if set(service.get("deploy", {}).get("resources", {}).get("limits", {})) < {"cpus", "memory", "pids"}:
        yield f"{name}: no limits"
    if "test" not in service.get("healthcheck", {}):
        yield f"{name}: no health check"
    for port in service.get("ports", []):
        if not str(port).startswith("127.0.0.1:"):
            yield f"{name}: {port} is open to the network"
    environment: Mapping[str, str] = service.get("environment", {})
    for variable in environment:
        if SENSITIVE.search(variable) and not REFERENCE.search(variable):
            yield f"{name}: {variable} not by reference"
    if OURS in service["image"] and any(environment.get(one) != "true" for one in list(TELEMETRY)[1:]):
        yield f"{name}: telemetry is not off"
    yield from (f"{name}: {breach}" for breach in image_breaches(service["image"]))


def image_breaches(image: str) -> Iterator[str]:
    """An image names its registry and one version."""
    place, _, tag = image.rpartition(":")
    if not place or "/" in tag or tag == "latest" or not re.match(r"v?\d+(\.\d+)+", tag):
        yield f"image {image}: no version"
    if "." not in image.split("/")[0]:
        yield f"image {image}: no registry"


def literal_secrets(node: object) -> Iterator[str]:
    """Values that look like secrets wherever they stand: passwords in URLs, keys, long random words."""
    for path, _, value in values(node):
        text = str(value)
        if re.search(r"://[^/\s:@]+:[^/\s@]+@", text):
            yield f"{path}: a password in a URL"
        if re.search(r"AKIA[0-9A-Z]{16}|BEGIN [A-Z ]*PRIVATE KEY|\b[0-9a-f]{32,}\b", text):
            yield f"{path}: a key"


def document_breaches(document: Document) -> list[str]:
    """All of one Kubernetes document."""
    found = [breach for template in pod_templates(document) for breach in pod_breaches(template)]
    if document["kind"] == "Secret":
        found.append("a Secret among the manifests")
    return [*found, *literal_secrets(document)]
