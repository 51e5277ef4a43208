"""``python -m pytest_nfvperf``: the ``nfvperf`` command."""

import sys

from pytest_nfvperf.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
