"""One program: its output, its value, and what an error looks like."""

import actbox

result = actbox.run("print('hello from', __import__('platform').system())\n2 ** 100")
print("output:", result.stdout, end="")
print("value: ", result.value)

result = actbox.run("ages = {'Ada': 36}\nages['Bob']")
assert result.error is not None
print("error: ", result.error.kind.value, "in line", result.error.line)
print(result.error.traceback)
