"""Mechanisms: how much noise a release needs, and what that release then guarantees.

One file per mechanism. A plan carries one as a frozen value (`protocol.Mechanism`): it counts its own steps, and where
it can it makes the release itself. Calibrations return a value that holds the noise and its `Guarantee`.
"""
