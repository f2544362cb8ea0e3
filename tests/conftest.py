"""Hypothesis profiles: `quick` by default, `long` for nights."""

import os
from pathlib import Path

from hypothesis import HealthCheck, settings

settings.register_profile(
    "quick", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("long", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

# Tests do not depend on the networks that are installed here; those that do read this folder.
INSTALLED = os.environ.get("CUTLEARN_CACHE")
os.environ["CUTLEARN_CACHE"] = str(Path(__file__).parent / "empty-cache")
os.environ.setdefault("CUTLEARN_INSTALLED", INSTALLED or "")
