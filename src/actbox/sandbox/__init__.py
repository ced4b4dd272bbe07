"""Sandboxes: the contract, its engines, the guest, and the channel between host and guest."""
