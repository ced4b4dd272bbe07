"""The names of the environments that need no lock: `actbox.core.packages` has them too, but takes longer to import."""

HOST = "host"
"""The environment of this process: its interpreter and its packages, read-only."""
CLEAN = "clean"
"""The interpreter and its standard library, without any package."""
AUTO = "auto"
"""For one program alone: the named environment that has most of its dependencies, else `HOST`."""
