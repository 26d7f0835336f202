"""Parts of ``forebay.jax``."""
