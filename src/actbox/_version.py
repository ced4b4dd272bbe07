"""The version of actbox, read by the build and by `actbox --version`."""

__version__ = "0.1.0.dev0"
