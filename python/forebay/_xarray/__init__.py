"""Parts of ``forebay.xarray``."""
