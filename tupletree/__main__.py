"""``python -m tupletree`` is the ``tupletree`` command."""

import sys

from tupletree.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
