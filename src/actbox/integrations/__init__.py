"""Adapters to other frameworks, one module each, which translate and do nothing else."""
