"""Parts of ``forebay.torch``."""
