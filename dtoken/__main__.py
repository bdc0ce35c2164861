"""``python -m dtoken`` is the command ``dtoken``."""

import sys

from dtoken.cli.run import main

sys.exit(main())
