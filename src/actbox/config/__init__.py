"""`Config` reads an operator's configuration files: environments, package policy and engine.

`examples/config/` has one of each kind of file:

- YAML with `images`: environments, each with `name`, `base`, `packages` and `warm_pool_size`.
- YAML with `python` and `nodejs`: the lists `auto_approved`, `requires_approval` and `blocked` of each language.
- TOML with `[sandbox]`: `enabled`, `runtime`, `package_cache_dir`, `enable_package_cache`, `[[sandbox.images]]`, and
  `[sandbox.package_allowlist]` with the lists of Python. Its other sections are ignored.
"""

from __future__ import annotations

from .config import Config

__all__ = ["Config"]
