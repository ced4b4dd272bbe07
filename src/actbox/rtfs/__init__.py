"""RTFS: a small pure language whose programs can touch nothing, so that they need no sandbox."""
