"""The host's end of the channel: what it believes of what a guest says, and how tool calls are answered."""
