"""What holds for all tests: none is judged by a clock, so Hypothesis has no deadline and no check for being slow."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("clockless", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("clockless")
