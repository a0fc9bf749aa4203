"""Every manifest against its schema or its own tool, without a cluster.

KubeRay's resources have no schema in any package that can be installed here: the pods inside are held against
Kubernetes' own, and the fields around them against the names of its API reference (version 1.6).
"""

import json
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
import yaml

from sweeps.spec.parse import load_spec
from sweeps.store.store import open_store
from tests.infra.manifests import (
    CLUSTERS,
    COMPOSE,
    CONTAINERFILE,
    KUBERAY,
    KUBERNETES,
    SCRIPTS,
    documents,
    pod_templates,
)
from tests.sweeps.stores import postgres_server

KUBERNETES_VERSION = "1.33"
OLDEST_VERSION = "1.29"
BIN = Path(sys.executable).parent


@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: path.name)
def test_cluster_files_pass_the_validator_of_ray(path):
    from ray.autoscaler._private.util import prepare_config, validate_config

    config = yaml.safe_load(path.read_text())
    validate_config(prepare_config(config))


@pytest.mark.parametrize("version", [OLDEST_VERSION, KUBERNETES_VERSION])
@pytest.mark.parametrize("path", KUBERNETES, ids=lambda path: path.name)
def test_kubernetes_manifests_pass_its_schemas(path, version):
    import kubernetes_validate

    for document in documents(path):
        assert document["metadata"].get("namespace", document["metadata"]["name"]) == "sweeps"
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("path", KUBERAY, ids=lambda path: path.name)
def test_pods_of_ray_clusters_pass_the_schema_of_pods(path):
    import kubernetes_validate

    templates = [template for document in documents(path) for template in pod_templates(document)]
    assert len(templates) == 2
    for template in templates:
        wrapped = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "pods"}, "template": template}
        kubernetes_validate.validate(wrapped, KUBERNETES_VERSION, strict=True)


def test_the_spec_inside_the_job_is_a_spec():
    (spec,) = [one["data"]["spec.yaml"] for path in KUBERAY for one in documents(path) if one["kind"] == "ConfigMap"]
    assert load_spec(yaml.safe_load(spec)).name == "toy"


def test_the_compose_file_passes_the_compose_specification():
    schema = json.loads((files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json").read_text())
    composed = yaml.safe_load(COMPOSE.read_text())
    validator = jsonschema.validators.validator_for(schema)(schema)
    assert [error.message for error in validator.iter_errors(composed)] == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_shell_scripts_pass_bash_and_shellcheck(path):
    subprocess.run(["bash", "-n", str(path)], check=True)
    done = subprocess.run([str(BIN / "shellcheck"), str(path)], capture_output=True, text=True, check=False)
    assert done.stdout == ""
    assert done.returncode == 0


def test_the_containerfile_passes_hadolint():
    command = [str(BIN / "hadolint"), str(CONTAINERFILE)]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stdout == ""


def test_commands_inside_manifests_are_shell():
    for path in KUBERAY:
        for document in documents(path):
            for template in pod_templates(document):
                for container in template["spec"]["containers"]:
                    command = container["startupProbe"]["exec"]["command"]
                    subprocess.run(["bash", "-n", "-c", command[-1]], check=True)
    (script,) = [
        one["data"]["databases.sh"] for path in KUBERNETES for one in documents(path) if one["kind"] == "ConfigMap"
    ]
    assert script == SCRIPTS[1].read_text()


def test_the_databases_script_makes_what_the_services_expect(tmp_path):
    """Run on a real server: two users with their passwords, who own their databases and nothing else."""
    for name in ("sweeps", "mlflow"):
        (tmp_path / f"postgres_{name}").write_text(f"secret of {name}'s")
    with postgres_server() as server:
        socket = server.get_uri().split("host=")[1]
        environment = {"PATH": f"{server.bin_path}:/usr/bin:/bin", "PGHOST": socket}
        environment["SECRETS_PREFIX"] = f"{tmp_path}/postgres_"
        subprocess.run(["sh", str(SCRIPTS[1])], env=environment, check=True, capture_output=True)
        listed = server.psql(
            "SELECT datname || ' ' || pg_get_userbyid(datdba) FROM pg_database WHERE datname !~ '^(template|postgres)'"
        )
        assert {line.strip() for line in listed.splitlines()} >= {
            "sweeps sweeps",
            "mlflow mlflow",
            "mlflow_users mlflow",
        }
        rules = server.pgdata / "pg_hba.conf"
        rules.write_text(f"local all sweeps scram-sha-256\n{rules.read_text()}")
        server.psql("SELECT pg_reload_conf();")
        open_store(f"postgresql://sweeps:secret%20of%20sweeps%27s@/sweeps?host={socket}").close()
