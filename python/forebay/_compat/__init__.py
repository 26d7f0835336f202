"""Interfaces of other packages and papers over forebay: DDStore, HydraGNN, Stimulus."""
