"""Ray's private parts that this project enters or patches: one trick for each file, and no other file has any.

| file | what Ray does by itself |
|---|---|
| `cluster_metadata` | a cluster of other versions or with a token is told apart after twenty seconds |
| `head_processes` | a cluster of this machine may die without this process being told |
| `idle_services` | a cluster of this machine alone starts services that nobody asks |
| `job_server` | the version of a job server is checked for being too old alone |
| `logger_names` | twenty lines about one lost worker, and words about each upload |
| `loopback` | a cluster of this machine alone listens on all interfaces |
| `machine_resources` | what a machine has is known after a cluster was started on it |
| `printed_lines` | what a cluster tells its driver is printed to stdout |
| `token` | a cluster's token is sent only where the environment says so, or by Ray's own command line |
| `trainable_lookups` | Tune looks each trial's trainable up five times |
| `trial_actors` | Tune alone knows which process has a trial |
| `trial_environment` | Tune asks for a new process for each trial, with the driver's AWS keys, which Ray logs |
| `usage_tags` | Tune imports MLflow to count callbacks for usage statistics |
| `worker_losses` | Tune ends the sweep when the memory monitor ends one worker |

A worker's own, the notice of a node that is to go, is `trainables/worker/ray_private.py`. `tests/sweeps/runner/` holds
each of them against the installed Ray, and fails where Ray has changed.
"""

SEEN_ON = "2.60"
"""Version of Ray on which every file here was read against Ray's own source."""
