"""``python -m forebay``: the ``forebay`` command."""

import sys

from ._command import main

sys.exit(main())
