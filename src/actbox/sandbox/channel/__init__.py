"""The host's end of the channel: checks a guest's messages, and answers its tool calls."""
