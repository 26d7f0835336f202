"""Tiers as arguments give them, and origins that are read through them."""
