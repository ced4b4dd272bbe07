"""One module a framework, each of which translates and does nothing else."""
