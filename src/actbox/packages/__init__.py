"""Packages: which ones a program may have, and how they get into its sandbox."""
