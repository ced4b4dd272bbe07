"""The version of actbox, read by the build and by `actbox --version`, and the one sentence on what actbox is."""

__version__ = "0.1.0.dev0"

SUMMARY = (
    "actbox runs the code that AI agents write: full CPython in a Linux sandbox, with your Python functions as tools."
)
"""The sentence that `actbox --help` and `--version` print; tests/test_summary.py says where else it must stand."""
