"""Ray's one door: joins a cluster, asks what it has, and runs the controller's decisions on it as Tune trials."""

import os

from sweeps.util.waiting import patience

# Engines report to their makers by default; a platform for private data switches that off before they load.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")
os.environ.setdefault("TUNE_GLOBAL_CHECKPOINT_S", "3600")
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
# Tune retries what a drained node took with it whatever `max_failures` says, and never asks the searcher.
os.environ["RAY_TRAIN_COUNT_PREEMPTION_AS_FAILURE"] = "1"
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
# Ray ends a process, with status 1 and no word, after a minute without its head: the watchdog's word comes before.
os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", str(round(patience()) + 60))
