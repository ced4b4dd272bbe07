import os
import subprocess

echoed = subprocess.run(["cat"], input=b"x" * 100_000, capture_output=True, check=True)
assert echoed.stdout == b"x" * 100_000

shell = subprocess.run(["sh", "-c", "ls / | sort | head -3 | wc -l; exit 3"], capture_output=True, text=True)
assert (shell.stdout.strip(), shell.stderr, shell.returncode) == ("3", "", 3)

own_session = subprocess.Popen(["sleep", "60"], start_new_session=True)
own_session.terminate()
assert own_session.wait() == -15

pid = os.posix_spawnp("true", ["true"], os.environ)
assert os.waitpid(pid, 0)[1] == 0
