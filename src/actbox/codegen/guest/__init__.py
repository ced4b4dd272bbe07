"""Code that runs in the two sandboxes of a text check: the tests' and the program's.

Its source is sent there as text, so each file needs only the standard library of Python 3.9 and newer.
"""
