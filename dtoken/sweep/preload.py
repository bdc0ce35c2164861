"""What every run needs, loaded once by the process that the workers of a sweep are forks of.

Nothing may be loaded here that starts a thread: a fork has only the thread that made it.
"""

import dtoken.config.hydra
import dtoken.session.execute
import dtoken.sweep.job
import dtoken.sweep.progress  # noqa: F401
from dtoken.algorithms.registry import METHODS, method_class

for name in METHODS:
    method_class(name)
