"""The guest: what runs inside a sandbox, before and around the program.

Standard library only, any CPython from 3.9 on, and no import of the rest of the package: an engine carries this
folder to wherever the program runs.
"""
