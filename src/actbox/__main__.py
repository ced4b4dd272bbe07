"""`python -m actbox` is the `actbox` command."""

from actbox.cli import main

main()
