"""Packages of programs: reads requirements, judges them by rules, and finds packages by the names of imports.

    from actbox.core.packages import PackageRules
    from actbox.packages import PackageJudge, read_requirements

    judge = PackageJudge(PackageRules(auto_approved=["openpyxl"], blocked=["keyboard"]))
    for requirement in read_requirements(["openpyxl>=3.1", "Keyboard"]):
        print(judge.judge(requirement).trust)  # allow-listed, blocked

These names read no file and use no network, except `read_dependencies`, and `distributions_of`, which looks at the
packages that this interpreter has. `provider` installs packages for the sandboxes. The extra `actbox[packages]` brings
what this room needs.
"""

from actbox.core.errors import Unsupported

try:
    import packaging  # noqa: F401
except ModuleNotFoundError:
    raise Unsupported("dependencies need the packaging library: pip install 'actbox[packages]'") from None

from .dependency_files import read_dependencies
from .import_names import distributions_of, in_standard_library, record_imports, top_level_imports
from .npm_requirements import parse_npm_requirement, read_npm_requirements
from .project_files import DeclaredDependencies, read_project, read_script
from .requirements import MOST_REQUIREMENTS, Requirement, parse_requirement, read_requirements, read_requirements_file
from .rules import Judgement, PackageJudge, ResolvedPackage
from .uv_lock import read_uv_lock

__all__ = [
    "MOST_REQUIREMENTS",
    "DeclaredDependencies",
    "Judgement",
    "PackageJudge",
    "Requirement",
    "ResolvedPackage",
    "distributions_of",
    "in_standard_library",
    "parse_npm_requirement",
    "parse_requirement",
    "read_dependencies",
    "read_npm_requirements",
    "read_project",
    "read_requirements",
    "read_requirements_file",
    "read_script",
    "read_uv_lock",
    "record_imports",
    "top_level_imports",
]
