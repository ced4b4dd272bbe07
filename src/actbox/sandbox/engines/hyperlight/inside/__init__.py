"""What runs inside the virtual machine, in its CPython 3.14: sent there as text when the machine is made.

`channel.py` is the way to the host, `files.py` what stands for a file system, `failure.py` and `traces.py` tell of
exceptions what the guest's own modules of these names cannot tell here, `program.py` runs a program, `boot.py` brings
them all in. The modules of `sandbox/guest/` that need no more than this interpreter has are used as they are.
`javascript/` is the same for JavaScript, put together as one function.
"""
