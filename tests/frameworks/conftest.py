"""What the tests share: files made by h5py and programs that run by themselves, as the tests of the package have them."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

# TensorFlow tells of each library that it does not find.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Four devices for tests of shardings; read when JAX is first asked for devices.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

_beside = Path(__file__).parents[2] / "python" / "tests" / "conftest.py"
_spec = importlib.util.spec_from_file_location("package_fixtures", _beside)
assert _spec is not None and _spec.loader is not None
_package = importlib.util.module_from_spec(_spec)
sys.modules["package_fixtures"] = _package
_spec.loader.exec_module(_package)

make, program = _package.make, _package.program
pytest_collection_modifyitems = _package.pytest_collection_modifyitems
