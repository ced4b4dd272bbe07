"""The code that runs inside the virtual machine, in its CPython 3.14; sent there as text when the machine starts.

`channel.py` sends requests to the host, `files.py` replaces the file system, and `traces.py` stands for the guest's own
module of that name, which needs more than this interpreter has. `program.py` runs a program, and `boot.py` loads them
all. Modules of `sandbox/guest/` are used unchanged where this interpreter suffices.
`javascript/` is the same for JavaScript, joined into one function.
"""
