"""Serves the requests of `sandbox/shell/` on the machine behind the shell: one command each, read from standard input.

The sources lie in a directory on that machine, where the first request (`install.py`) has written them.
"""
