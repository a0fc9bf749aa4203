"""Property tests repeat themselves and never fail for their pace: what passed once passes on a slower machine.

`pytest --hypothesis-profile explore` draws new examples.
"""

from hypothesis import HealthCheck, settings

settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")
