"""Hugging Face datasets by a generator over a loader."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "huggingface_datasets.py"


def test_the_example_has_every_sample_once_and_processes_share_them(tmp_path: Path) -> None:
    environment = {**os.environ, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run([sys.executable, EXAMPLE], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "400 samples, each once: True" in done.stdout, done.stdout
    assert "two processes have 200 and 200, none in common: True" in done.stdout, done.stdout
