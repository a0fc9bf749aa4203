"""The JSON schema of a spec, for editors."""

from __future__ import annotations

from typing import Any

from sweeps.search import registry
from sweeps.spec.model import FUNCTION, SweepSpec


def spec_schema() -> dict[str, Any]:
    """JSON schema (draft 2020-12) of a spec."""
    schema = SweepSpec.model_json_schema(mode="validation")
    sampler = schema["$defs"]["Search"]["properties"]["sampler"]
    del sampler["type"]
    sampler["anyOf"] = [{"enum": registry.known()}, {"type": "string", "pattern": f"^{FUNCTION.pattern}$"}]
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "sweep spec"
    return schema
