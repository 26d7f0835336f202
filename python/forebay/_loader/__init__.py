"""Batches of a set of samples, epoch after epoch."""

from .loader import Loader as Loader
