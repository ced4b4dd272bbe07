"""The guest: the code that runs inside a sandbox, before and around the program.

It uses the standard library only, on any CPython from 3.9 on, and imports nothing else of the package, because engines
copy this directory to wherever the program runs.
"""
