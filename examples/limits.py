"""What programs get that take too much: an error that says which limit, and a host that does not feel it."""

import actbox

GREEDY = {
    "too long": "while True: pass",
    "too much memory": "x = list(range(500_000_000))",
    "too many processes": "import os\nwhile True: os.fork()",
    "too much output": "while True: print('x' * 1000)",
    "too large a file": "open('big', 'wb').write(bytes(50_000_000))",
    "the network": "import urllib.request\nurllib.request.urlopen('http://192.0.2.1/')",
}

limits = actbox.Limits(wall_seconds=2, memory_mib=256, processes=16, output_bytes=100_000, file_mib=10)
with actbox.sync.open_sandbox(policy=actbox.Policy(limits=limits)) as box:
    for what, code in GREEDY.items():
        result = box.run(code)
        assert result.error is not None
        print(f"{what:20} {result.error.kind.value:13} {result.error.limit:15} {result.error.hint}")
