"""Policies of ours: nobody is root, everything is bounded and probed, no secret stands anywhere, one version each."""

import re

import pytest
import yaml

from tests.infra.manifests import (
    CLUSTERS,
    COMPOSE,
    CONTAINERFILE,
    INFRA,
    KUBERAY,
    KUBERNETES,
    SCRIPTS,
    all_documents,
    clusters_of,
    constraints,
    documents,
    pod_templates,
    project_version,
    values,
)
from tests.infra.policies import TELEMETRY, document_breaches, literal_secrets, service_breaches

PAGE = (INFRA / "README.md").read_text()


def named(document):
    return f"{document['kind']}/{document['metadata']['name']}"


@pytest.mark.parametrize("document", all_documents(), ids=named)
def test_no_document_breaks_a_policy(document):
    assert document_breaches(document) == []


@pytest.mark.parametrize("name", yaml.safe_load(COMPOSE.read_text())["services"])
def test_no_composed_service_breaks_a_policy(name):
    composed = yaml.safe_load(COMPOSE.read_text())
    assert list(service_breaches(name, composed["services"][name])) == []
    assert all(set(secret) == {"file"} for secret in composed["secrets"].values())
    assert list(literal_secrets(composed)) == []


def test_no_secret_stands_in_any_file():
    for path in (*CLUSTERS, *KUBERNETES, *KUBERAY, COMPOSE):
        for document in documents(path):
            assert list(literal_secrets(document)) == [], path
    for path in (*SCRIPTS, CONTAINERFILE):
        assert list(literal_secrets({"text": path.read_text()})) == []
        assert not re.search(r"(PASSWORD|TOKEN|SECRET)[A-Z_]*=[^\"$ ]", path.read_text())


def test_one_set_of_versions_everywhere():
    pinned, version = constraints(), project_version()
    clusters = [cluster for document in all_documents() for cluster in clusters_of(document)]
    assert [cluster["rayVersion"] for cluster in clusters] == [pinned["ray"]] * 2
    images = {str(value) for document in all_documents() for _, key, value in values(document) if key == "image"}
    images |= {service["image"] for service in yaml.safe_load(COMPOSE.read_text())["services"].values()}
    images |= {yaml.safe_load(path.read_text())["docker"]["image"] for path in CLUSTERS}
    ours = {image for image in images if "private-sweeps" in image}
    assert ours == {f"registry.example.org/private-sweeps:{version}"}
    by_name = {}
    for image in images - ours:
        by_name.setdefault(image.rpartition(":")[0], set()).add(image)
    assert all(len(tags) == 1 for tags in by_name.values()), by_name


def test_the_image_installs_what_is_pinned():
    text = CONTAINERFILE.read_text()
    installs = [line for line in text.splitlines() if "pip install" in line]
    assert installs
    assert all("--constraint constraints.txt" in line for line in installs)
    assert "==" not in "".join(installs)
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert set(bases) == {bases[0]}
    assert re.fullmatch(r"docker\.io/library/python:3\.11\.\d+-slim-bookworm", bases[0])
    pinned = constraints()
    for package in ("ray", "mlflow", "torch", "boto3", "Flask-WTF"):
        assert package in pinned, f"{package}: in the image, and not in constraints.txt"


def test_nothing_reports_to_its_makers():
    environment = CONTAINERFILE.read_text()
    assert all(f"{name}={value}" in environment for name, value in TELEMETRY.items())
    for path in CLUSTERS:
        config = yaml.safe_load(path.read_text())
        options = config["docker"]["run_options"]
        assert all(f"--env {name}={value}" in options for name, value in TELEMETRY.items())
        starts = [*config["head_start_ray_commands"], *config["worker_start_ray_commands"]]
        assert all("--disable-usage-stats" in line for line in starts if "ray start" in line)
    script = SCRIPTS[0].read_text()
    assert all(f"{name}={value}" in script for name, value in TELEMETRY.items())
    assert script.count("ray start --") == script.count("--disable-usage-stats") == 1
    for document in all_documents():
        for cluster in clusters_of(document):
            for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
                assert group["rayStartParams"]["disable-usage-stats"] == "true"


def test_every_cluster_wants_a_token():
    for document in all_documents():
        for cluster in clusters_of(document):
            assert cluster["authOptions"]["mode"] == "token"
    for path in CLUSTERS:
        config = yaml.safe_load(path.read_text())
        assert "--env RAY_AUTH_MODE=token" in config["docker"]["run_options"]
        assert "/home/sweeps/.ray/auth_token" in config["file_mounts"]
    assert "RAY_AUTH_MODE=token" in SCRIPTS[0].read_text()


def test_trials_have_the_keys_of_the_records_and_no_others():
    """A worker runs whatever model a user names: it must not be able to write the store or MLflow."""
    for document in all_documents():
        for cluster in clusters_of(document):
            for group in cluster["workerGroupSpecs"]:
                (container,) = group["template"]["spec"]["containers"]
                secret = {one["name"] for one in container["env"] if "valueFrom" in one}
                assert secret == {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}


def selected(policy, labels):
    return policy["spec"]["podSelector"].get("matchLabels", {}).items() <= labels.items()


def allowed(sender, receiver, port):
    """Whether the policies let pods with the labels `sender` connect to `receiver` at `port`."""
    policies = [one for one in all_documents() if one["kind"] == "NetworkPolicy"]

    def permits(policy, direction, peer_key, peer):
        for rule in policy["spec"].get(direction, []):
            peers = rule.get(peer_key, [])
            here = any(one.get("podSelector", {}).get("matchLabels", {"": ""}).items() <= peer.items() for one in peers)
            ports = [one["port"] for one in rule.get("ports", [])]
            if here and (not ports or port in ports):
                return True
        return False

    out = any(permits(one, "egress", "to", receiver) for one in policies if selected(one, sender))
    into = any(permits(one, "ingress", "from", sender) for one in policies if selected(one, receiver))
    return out and into


def test_the_network_lets_through_what_is_needed_and_no_more():
    controller, worker = {"app": "ray", "role": "controller"}, {"app": "ray", "role": "worker"}
    postgres, mlflow, objects = {"app": "postgres"}, {"app": "mlflow"}, {"app": "objects"}
    for sender, receiver, port in [
        (controller, postgres, 5432), (controller, mlflow, 5000), (controller, objects, 8333),
        (controller, worker, 6379), (worker, controller, 6379), (worker, worker, 12345), (worker, objects, 8333),
        (mlflow, postgres, 5432), (mlflow, objects, 8333),
    ]:  # fmt: skip
        assert allowed(sender, receiver, port), (sender, receiver)
    for sender, receiver, port in [
        (worker, postgres, 5432), (worker, mlflow, 5000), (mlflow, controller, 8265), (postgres, mlflow, 5000),
        (objects, postgres, 5432), ({"app": "other"}, postgres, 5432),
    ]:  # fmt: skip
        assert not allowed(sender, receiver, port), (sender, receiver)
    nothing = [one for one in all_documents() if one["metadata"]["name"] == "nothing"]
    assert [one["spec"] for one in nothing] == [{"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}]
    for document in all_documents():
        for template in pod_templates(document):
            assert template["metadata"]["labels"]["app"] in ("ray", "postgres", "mlflow", "objects")


def test_services_lead_to_ports_that_exist():
    templates = [template for document in all_documents() for template in pod_templates(document)]
    for service in [one for one in all_documents() if one["kind"] == "Service"]:
        chosen = service["spec"]["selector"].items()
        (template,) = [one for one in templates if chosen <= one["metadata"]["labels"].items()]
        ports = {port["containerPort"] for one in template["spec"]["containers"] for port in one["ports"]}
        assert {port["port"] for port in service["spec"]["ports"]} <= ports


def test_the_operators_page_names_every_secret_and_every_file():
    secrets = {
        str(value)
        for document in all_documents()
        for path, key, value in values(document)
        if key == "secretName" or (key == "name" and "secretKeyRef" in path)
    }
    secrets |= set(yaml.safe_load(COMPOSE.read_text())["secrets"])
    missing = [name for name in secrets if f"`{name}`" not in PAGE and name not in PAGE]
    assert missing == []
    for path in (*CLUSTERS, *KUBERNETES, *KUBERAY, COMPOSE, *SCRIPTS, CONTAINERFILE):
        named_here = str(path.relative_to(INFRA))
        assert named_here in PAGE or f"{path.parent.name}/" in PAGE, named_here
