"""Published trials, fronts and ledgers as pandas tables: one row each, one number a cell, nothing rounded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from sweeps.face.curve_rows import curve_columns, curve_rows
from sweeps.face.trial_rows import assumptions_of, row_columns, trial_rows
from sweeps.face.under_way import UnderWay
from sweeps.front.export import rows
from sweeps.front.panels import Front
from sweeps.release.published import Published
from sweeps.release.quoting import legend_of
from sweeps.store.records import CurveReport, LedgerEntry


def trials_table(trials: Iterable[Published], running: Mapping[str, UnderWay] | None = None) -> pd.DataFrame:
    """One row a trial, in the order given, indexed by its number.

    key, state, reason     its name everywhere; where it stands, and why
    system, target_epsilon what was proposed, with `knob.<name>` for each hyperparameter
    solved.<name>          what the calibration chose, the noise multiplier for example
    metric.<name>          as reported last
    epsilon, delta, ...    its claim, empty before the first report; `status` counts its assumptions, whose sentences
                           are in `.attrs["assumptions"]`, the first of them number 1
    quote, quote_as        whether its epsilon may be quoted, and with which words; of the metrics, and in sentences, in
                           `.attrs["quotes"]`
    steps, planned_steps, work, attempts, proposed_at, finished_at   times in UTC
    at_step, seconds_left, node  of trials in `running`: steps in the newest checkpoint, the time to the launch's end,
                           the machine
    """
    listed = list(trials)
    assumptions = assumptions_of(listed)
    rows = trial_rows(listed, running or {}, assumptions)
    if not rows:
        return pd.DataFrame(columns=["key", "state", "reason", "system", "target_epsilon"]).rename_axis("number")
    table = pd.DataFrame(rows)[row_columns(rows)].set_index("number")
    table.attrs |= {"assumptions": list(assumptions.sentences), "quotes": legend_of(listed)}
    return table


def curves_table(
    trials: Iterable[Published], curves: Mapping[str, Sequence[CurveReport]], heading: str = ""
) -> pd.DataFrame:
    """One row for each planned step after which a trial reported, in the order of `trials`.

    number, key             whose
    step, share             after how many of its planned steps, and which share of them (1: all)
    attempt                 the launch that ran the last of them
    metric.<name>           measured there; on private validation records of a noised histogram, and then
    metric.<name>_noise_sd  is the standard deviation of that noise
    status                  of the trial's claim; empty before it has one
    heading                 what stands above every claim of the sweep, where something does
    """
    rows = curve_rows(trials, curves, heading)
    return pd.DataFrame(rows, columns=curve_columns(rows))


def front_table(front: Front, everything: bool = False) -> pd.DataFrame:
    """One row a point of the front (of every ranked trial with `everything`), best of the first objective first.

    Columns as `sweeps.front.export.rows` names them; `.attrs` has the heading and the sentences that statuses rest on.
    """
    table = pd.DataFrame(list(rows(front, everything)))
    table.attrs |= {"quotes": front.legend()}
    table.attrs |= {"heading": front.heading, "assumptions": list(front.assumptions.sentences), "note": front.note}
    return table


def ledger_table(entries: Iterable[LedgerEntry]) -> pd.DataFrame:
    """One row a launch: steps [from_step, to_step) reserved, up to which they may have run, and how many are charged.

    `executed_to` is empty while a launch has not been settled: then all that it reserved counts.
    """
    return pd.DataFrame(
        [
            {
                "key": entry.key,
                "attempt": entry.attempt,
                "from_step": entry.from_step,
                "to_step": entry.to_step,
                "executed_to": entry.executed_to,
                "charged": entry.steps_spent,
            }
            for entry in entries
        ],
        columns=["key", "attempt", "from_step", "to_step", "executed_to", "charged"],
    ).astype({"executed_to": "Int64"})
