"""python -m arenascope."""

import sys

from .cli import main

sys.exit(main())
