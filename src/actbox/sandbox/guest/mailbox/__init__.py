"""The sandbox's end of a mailbox: carries the channel of a guest that no pipe of the host reaches, in pieces.

Each direction is a stream of bytes, cut into pieces that are numbered from 1 and taken in order, each once. `relay.py`
moves them between the guest's end of a channel and a `Transport`: a directory (`folder.py`) or the host's tool proxy
(`http.py`). The guest itself uses an ordinary channel.
"""
