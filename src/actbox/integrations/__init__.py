"""Adapters to agent frameworks, one module each. An adapter translates, and does nothing else."""
