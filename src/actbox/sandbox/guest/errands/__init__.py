"""What a sandbox that has only a shell sends through it: one errand a command, told by standard input.

The sources lie in a folder on that machine, where the first errand of all (`install.py`) has put them.
"""
