"""Where programs run: the contract, the engines behind it, the guest, and the channel between them."""
