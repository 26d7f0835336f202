"""Warnings that Python code of this package raises itself; those of the engine are raised by its compiled part."""

from __future__ import annotations

from ._forebay import ForebayWarning


class ForebayRuntimeWarning(ForebayWarning, RuntimeWarning):
    """A run goes on, but not as well as it could."""
