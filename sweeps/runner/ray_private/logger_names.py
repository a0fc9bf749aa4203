"""Names of Ray's own loggers, and the first words of what they say (Ray 2.60)."""

TUNE = "ray.tune.execution.tune_controller"
TOKEN = "ray._private.authentication.authentication_token_setup"
ANALYSIS = "ray.tune.analysis.experiment_analysis"
UPLOADS = (
    "ray.client_builder",
    "ray.dashboard.modules.dashboard_sdk",
    "ray.dashboard.modules.job.sdk",
    "ray._private.runtime_env.packaging",
)
"""Who speaks of each package that is sent to a job server, and of each connection that closes."""

TRIAL_FAILED = "Trial task failed for trial "
"""Of `TUNE`, before the trial's name."""
TOKEN_ENABLED = "Token authentication is enabled"
"""Of `TOKEN`, whenever a local cluster starts."""
WORKER_LOST = ("A worker died or was killed", "Raylet is terminated")
"""Lines of a cluster about a lost worker; the sentence about its trial says it already."""
