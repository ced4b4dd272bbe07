"""Mail: the channel of a guest that no pipe of the host's leads to, carried in pieces.

What goes out and what comes in are two streams of bytes. Each is cut into pieces that are numbered from 1 and taken in
their order, each once. `ferry.py` moves them between the guest's end of a channel and a post; a post is a folder
(`folder.py`) or the host's tool proxy (`http.py`). The guest itself speaks to an ordinary channel.
"""
