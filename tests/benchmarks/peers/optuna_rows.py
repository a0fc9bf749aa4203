"""Optuna, with its own store in SQLite; a trial's steps are its user's own loop."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
import warnings

import optuna

from tests.benchmarks.peers.rows import NotThere

optuna.logging.set_verbosity(optuna.logging.ERROR)
warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)

SLOW = """
import sys, time, optuna
def objective(trial):
    x = trial.suggest_float("x", 0, 1)
    for step in range(20):
        trial.set_user_attr("step", step)
        time.sleep(0.1)
    return x
optuna.load_study(study_name="s", storage=sys.argv[1]).optimize(objective, n_trials=3)
"""


def _quick(trial: optuna.Trial) -> float:
    return trial.suggest_float("x", 0, 1)


def _two(trial: optuna.Trial) -> tuple[float, float]:
    x = trial.suggest_float("x", 0, 1)
    return x, 1 - x


def killed() -> str:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/study.db"
        study = optuna.create_study(study_name="s", storage=url)
        process = subprocess.Popen([sys.executable, "-c", SLOW, url], stderr=subprocess.DEVNULL)
        while not any(trial.user_attrs.get("step", 0) > 5 for trial in study.trials):
            time.sleep(0.1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        optuna.load_study(study_name="s", storage=url).optimize(_quick, n_trials=1)
        states = [trial.state.name for trial in study.trials]
    raise NotThere(f"finished ones stay; the killed one is left as it is, a new one starts: {', '.join(states)}")


def extended() -> str:
    study = optuna.create_study()
    study.optimize(_quick, n_trials=3)
    study.optimize(_quick, n_trials=2)
    return f"`optimize` again: {len(study.trials)} trials"


def enqueued() -> str:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/study.db"
        study = optuna.create_study(study_name="s", storage=url)
        optuna.load_study(study_name="s", storage=url).enqueue_trial({"x": 0.25})
        study.optimize(_quick, n_trials=1)
        assert study.trials[0].params["x"] == 0.25
    return "`enqueue_trial` over the same storage"


def stopped() -> str:
    raise NotThere("`Study.stop` works inside an objective or a callback; from elsewhere one kills the process")


def listed() -> str:
    study = optuna.create_study()
    study.optimize(_quick, n_trials=5)
    table = study.trials_dataframe()
    return f"`trials_dataframe`, {len(table.columns)} columns; filters and order are those of pandas"


def front() -> str:
    study = optuna.create_study(directions=["minimize", "minimize"])
    study.optimize(_two, n_trials=5)
    return f"`best_trials` ({len(study.best_trials)}), `plot_pareto_front`"


def joined() -> str:
    raise NotThere("a study is one search; `add_trials` copies one into the other")


def conditional() -> str:
    def objective(trial: optuna.Trial) -> float:
        return trial.suggest_float("y", 0, 1) if trial.suggest_categorical("kind", ["a", "b"]) == "a" else 0.5

    study = optuna.create_study()
    study.optimize(objective, n_trials=5)
    return "an `if` in the objective"


def constrained() -> str:
    raise NotThere("`constraints_func` is asked after the trial has run; before it one prunes by hand in the objective")


def pruned() -> str:
    def objective(trial: optuna.Trial) -> tuple[float, float]:
        trial.report(0.5, 1)
        trial.should_prune()
        return 0.5, 0.5

    study = optuna.create_study(directions=["minimize", "minimize"])
    try:
        study.optimize(objective, n_trials=1)
    except NotImplementedError as error:
        raise NotThere(str(error)) from error
    return "works"


def exported() -> str:
    raise NotThere("`optuna.artifacts` keeps files that the objective wrote; models are the user's own")


def predicted() -> str:
    raise NotThere("models are the user's own")


def noted() -> str:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/study.db"
        optuna.create_study(study_name="s", storage=url)
        optuna.load_study(study_name="s", storage=url).set_user_attr("note", "clip is too small")
    return "`set_user_attr`"


def deleted() -> str:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/study.db"
        optuna.create_study(study_name="s", storage=url).optimize(_quick, n_trials=1)
        optuna.delete_study(study_name="s", storage=url)
        left = optuna.get_all_study_names(url)
        assert not left
    raise NotThere("`delete_study`; nothing of it stays")


def misspelled() -> str:
    study = optuna.create_study()
    study.enqueue_trial({"learnin_rate": 0.1})
    study.optimize(_quick, n_trials=1)
    raise NotThere(f"an enqueued point with a misspelled knob ran, at random: {study.trials[0].params}")


def charged() -> str:
    raise NotThere("knows no budget")
