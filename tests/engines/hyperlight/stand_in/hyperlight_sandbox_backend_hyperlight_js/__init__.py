"""Stands for the package of this name, which is looked for and not imported."""
