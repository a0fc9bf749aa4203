"""Mechanisms: how much noise a release needs, and what that release then guarantees.

One file per mechanism. A plan carries one as a frozen value (`protocol.Mechanism`): it counts its own steps, and where
it can it makes the release itself. Calibrations return how much noise a budget asks for.
"""
