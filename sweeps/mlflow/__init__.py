"""MLflow as a view of the store: fed beside a sweep, rebuilt at will, read back as a front."""

import os

# MLflow reports to its makers by default; a platform for private data switches that off before it loads.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["DO_NOT_TRACK"] = "true"
# Waiting is the caller's business: an outage must be seen at once, not after MLflow's own minutes of retries.
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")

FRONT = "front"
"""The name of the view that a sweep's page opens with (`sweeps.mlflow.runs.shared_view`)."""
