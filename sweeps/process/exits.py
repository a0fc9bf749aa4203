"""Exit codes: what each says to whoever started the command, a person, a scheduler or a script.

Imports the standard library alone.
"""

from __future__ import annotations

from enum import IntEnum

OURS = ("sweeps", "dpcore", "trainables")
ENGINES = ("mlflow", "sqlalchemy", "requests", "urllib3", "pyarrow")
"""Packages whose errors, where they reach a command, tell of a service or a file and not of a mistake in ours."""


class ExitCode(IntEnum):
    """The exit code of a command and what it says. No other code is given, but 1 by Python itself for a bug."""

    meaning: str
    goes_on: bool
    """Whether the same sweep goes on by `sweeps resume` with nothing else changed: alone then may a machine start it
    again. After SOME_FAILED and NONE_RANKED the sweep is over, and would end the same way for ever."""

    def __new__(cls, code: int, meaning: str, goes_on: bool = False) -> ExitCode:
        """The code with its meaning."""
        member = int.__new__(cls, code)
        member._value_ = code
        member.meaning, member.goes_on = meaning, goes_on
        return member

    OK = 0, "all went well; of a sweep: it is finished (or its space exhausted) and every launched trial has a rank"
    FAILED = 1, "the command itself failed, or a question has no answer"
    BAD_INPUT = 2, "bad input, or something that the command needs is missing"
    REFUTED = 3, "an audit refuted a claim, or a certificate does not stand"
    SOME_FAILED = 4, "the sweep is finished, but some trials failed or reported no objective"
    NONE_RANKED = 5, "the sweep is finished, and no trial can be ranked"
    CLUSTER_LOST = 75, "the Ray cluster was lost", True
    INTERRUPTED = 130, "stopped by Ctrl-C or SIGTERM", True

    @classmethod
    def known(cls, code: int | None) -> ExitCode | None:
        """The member of this number; None for that of another program, or of a signal."""
        return next((one for one in cls if one.value == code), None)

    @classmethod
    def of_error(cls, error: BaseException) -> ExitCode:
        """What a command exits with that `error` ended."""
        if isinstance(error, KeyboardInterrupt):
            return cls.INTERRUPTED
        known = type(error).__module__.split(".")[0] in (*OURS, *ENGINES)
        return cls.BAD_INPUT if known or isinstance(error, OSError) else cls.FAILED

    @classmethod
    def of_sweep(cls, *, ranked: int, complete: int, failed: int) -> ExitCode:
        """Of a sweep that is over: `ranked` of its `complete` trials have a value in every objective."""
        if not ranked:
            return cls.NONE_RANKED
        return cls.SOME_FAILED if failed or ranked < complete else cls.OK


TABLE = (
    f"Exit codes: {'; '.join(f'{code.value} {code.meaning}' for code in ExitCode)}. After 75 and 130, and after 2 once "
    "the cause is gone, `sweeps resume` goes on; after 4 and 5 it would end the same way."
)
"""For `--help`."""
