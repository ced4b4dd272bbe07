"""The cases of the contract, a file for each thing that a sandbox does."""
