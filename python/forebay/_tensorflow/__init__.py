"""Parts of ``forebay.tensorflow``."""
