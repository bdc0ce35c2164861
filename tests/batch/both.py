"""The command dtoken whose engine waits for two workers before it begins, for ``engine.rejoin`` seconds.

It would begin with the first one, and a short run may be over before the second is there.
"""

import sys

from dtoken.cli.run import main
from dtoken.engine.dask.crew import Crew

living = Crew.living


def both(crew: Crew, wanted: int) -> dict[str, str]:
    """Two at least."""
    return living(crew, max(wanted, 2))


if __name__ == "__main__":
    Crew.living = both  # type: ignore[method-assign]
    sys.exit(main())
