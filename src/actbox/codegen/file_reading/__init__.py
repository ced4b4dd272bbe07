"""A program that looks at files by their content, in a sandbox: kind, columns, types, ranges, first rows.

It is sent there as a package, so it needs only the standard library of CPython 3.9, and imports nothing of the rest.
"""
