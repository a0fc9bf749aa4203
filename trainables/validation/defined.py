"""Whether metrics have a value on the validation records that are there: looked up before any trial, where they are
public. What private ones hold nobody asks: their noised counts give a number whatever they are.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dpcore.checks import InvalidValue
from trainables.system import Dataset

OF_SEVERAL_VALUES = {
    "auc": "classes",
    "average_precision": "classes",
    "r2": "targets",
}
"""{metric that records of one value leave undefined: what these are values of}"""


def check_defined(data: Dataset, objectives: Iterable[str]) -> None:
    """Raises InvalidValue for a metric that steers a search and that no trial could report of these records."""
    targets = data.validation.targets
    if data.facts.private_validation is not None or not len(targets) or len(np.unique(targets)) > 1:
        return
    for metric in objectives:
        if metric in OF_SEVERAL_VALUES:
            what = OF_SEVERAL_VALUES[metric]
            expected = f"validation records of several {what}, without which there is no {metric}; all are {targets[0]}"
            raise InvalidValue("objectives", metric, expected, "Validate on others, or choose another objective.")
