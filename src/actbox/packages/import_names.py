"""Names of imports: which distribution brings `cv2`, what a wheel lets one import, what Python has itself."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import packages_distributions
from typing import Final

from actbox.core.errors import InvalidValue
from actbox.core.packages import normalized_name

DISTRIBUTIONS: Final[Mapping[str, str]] = {
    "absl": "absl-py",
    "airflow": "apache-airflow",
    "attr": "attrs",
    "azure.core": "azure-core",
    "azure.identity": "azure-identity",
    "azure.storage.blob": "azure-storage-blob",
    "barcode": "python-barcode",
    "binance": "python-binance",
    "Bio": "biopython",
    "bs4": "beautifulsoup4",
    "bson": "pymongo",
    "cairo": "pycairo",
    "camelot": "camelot-py",
    "can": "python-can",
    "community": "python-louvain",
    "corsheaders": "django-cors-headers",
    "Crypto": "pycryptodome",
    "Cryptodome": "pycryptodomex",
    "cv2": "opencv-python-headless",
    "dateutil": "python-dateutil",
    "dbus": "dbus-python",
    "decouple": "python-decouple",
    "distutils": "setuptools",
    "django_filters": "django-filter",
    "dns": "dnspython",
    "docx": "python-docx",
    "dotenv": "python-dotenv",
    "elftools": "pyelftools",
    "faiss": "faiss-cpu",
    "ffmpeg": "ffmpeg-python",
    "fitz": "pymupdf",
    "fpdf": "fpdf2",
    "frontmatter": "python-frontmatter",
    "gi": "pygobject",
    "git": "gitpython",
    "github": "pygithub",
    "gitlab": "python-gitlab",
    "google.api_core": "google-api-core",
    "google.auth": "google-auth",
    "google.cloud.bigquery": "google-cloud-bigquery",
    "google.cloud.firestore": "google-cloud-firestore",
    "google.cloud.storage": "google-cloud-storage",
    "google.cloud.vision": "google-cloud-vision",
    "google.genai": "google-genai",
    "google.generativeai": "google-generativeai",
    "google.oauth2": "google-auth",
    "google.protobuf": "protobuf",
    "googleapiclient": "google-api-python-client",
    "graphql": "graphql-core",
    "gridfs": "pymongo",
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "hcl2": "python-hcl2",
    "imblearn": "imbalanced-learn",
    "jenkins": "python-jenkins",
    "jose": "python-jose",
    "jwt": "pyjwt",
    "kafka": "kafka-python",
    "keycloak": "python-keycloak",
    "ldap": "python-ldap",
    "magic": "python-magic",
    "markdown_it": "markdown-it-py",
    "memcache": "python-memcached",
    "mpl_toolkits": "matplotlib",
    "msoffcrypto": "msoffcrypto-tool",
    "multipart": "python-multipart",
    "mysql": "mysql-connector-python",
    "MySQLdb": "mysqlclient",
    "nacl": "pynacl",
    "newspaper": "newspaper3k",
    "nmap": "python-nmap",
    "odf": "odfpy",
    "OpenGL": "pyopengl",
    "OpenSSL": "pyopenssl",
    "opentelemetry": "opentelemetry-api",
    "osgeo": "gdal",
    "past": "future",
    "pdfminer": "pdfminer.six",
    "PIL": "pillow",
    "pkg_resources": "setuptools",
    "playhouse": "peewee",
    "pptx": "python-pptx",
    "psycopg2": "psycopg2-binary",
    "pwn": "pwntools",
    "pydantic_ai": "pydantic-ai-slim",
    "pylab": "matplotlib",
    "pynvml": "nvidia-ml-py",
    "pythoncom": "pywin32",
    "pywintypes": "pywin32",
    "pywt": "pywavelets",
    "pyximport": "cython",
    "rest_framework": "djangorestframework",
    "RPi": "rpi.gpio",
    "ruamel": "ruamel.yaml",
    "serial": "pyserial",
    "shapefile": "pyshp",
    "skbio": "scikit-bio",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "sklearn_extra": "scikit-learn-extra",
    "skopt": "scikit-optimize",
    "slugify": "python-slugify",
    "snappy": "python-snappy",
    "socketio": "python-socketio",
    "socks": "pysocks",
    "speech_recognition": "speechrecognition",
    "stdnum": "python-stdnum",
    "strands": "strands-agents",
    "tabula": "tabula-py",
    "talib": "ta-lib",
    "telegram": "python-telegram-bot",
    "tlz": "toolz",
    "ulid": "python-ulid",
    "umap": "umap-learn",
    "usb": "pyusb",
    "usb1": "libusb1",
    "vlc": "python-vlc",
    "websocket": "websocket-client",
    "whois": "python-whois",
    "win32api": "pywin32",
    "win32com": "pywin32",
    "win32con": "pywin32",
    "win32gui": "pywin32",
    "wx": "wxpython",
    "xdist": "pytest-xdist",
    "Xlib": "python-xlib",
    "yaml": "pyyaml",
    "zmq": "pyzmq",
}
"""Distributions by the name that programs import, where the two differ; a dotted name is a part of a namespace."""

ALTERNATIVES: Final[Mapping[str, tuple[str, ...]]] = {
    "Crypto": ("pycrypto",),
    "cv2": ("opencv-python", "opencv-contrib-python", "opencv-contrib-python-headless"),
    "faiss": ("faiss-gpu",),
    "magic": ("python-magic-bin",),
    "multipart": ("multipart",),
    "onnxruntime": ("onnxruntime", "onnxruntime-gpu"),
    "psycopg2": ("psycopg2",),
    "pynvml": ("pynvml",),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "xgboost": ("xgboost", "xgboost-cpu"),
}
"""Further distributions that bring a module."""

_MODULES: Final[dict[str, set[str]]] = {}
"""The modules of the table by the normalized name of their distribution."""
for _module, _distribution in [
    *DISTRIBUTIONS.items(),
    *((module, one) for module, others in ALTERNATIVES.items() for one in others),
]:
    _MODULES.setdefault(normalized_name(_distribution), set()).add(_module)

_LONGEST_FIELD: Final = 128 * 1024
_MODULE_FILES: Final = (".py", ".pyc", ".so", ".pyd")


def in_standard_library(name: str) -> bool:
    """Return True if a module, or the package that it is in, comes with the Python that runs this process."""
    return name.partition(".")[0] in sys.stdlib_module_names


def distributions_of(name: str, installed: Mapping[str, Sequence[str]] | None = None) -> tuple[str, ...]:
    """Return the normalized names of the distributions that bring a module, such as `cv2` or `google.cloud.storage`.

    The first is the one to ask for where nothing tells them apart.

    `installed` has distributions by top-level module; default: those of this interpreter. Modules that neither the
    table nor `installed` knows are taken to be named as their distribution is. A module of the standard library has no
    distribution. Raises `InvalidValue` for text that cannot be imported.
    """
    if not isinstance(name, str) or not name.isascii() or not all(part.isidentifier() for part in name.split(".")):
        raise InvalidValue(f"a module has a name such as 'yaml' or 'google.cloud.storage', not {name!a:.100}")
    if in_standard_library(name):
        return ()
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        known = ".".join(parts[:length])
        if found := (*filter(None, (DISTRIBUTIONS.get(known),)), *ALTERNATIVES.get(known, ())):
            return tuple(map(normalized_name, found))
    listed = (packages_distributions() if installed is None else installed).get(parts[0])
    guess = parts[0].strip("_")
    return tuple(sorted({normalized_name(each) for each in listed or [guess] if each}))


def modules_of(distribution: str) -> tuple[str, ...]:
    """Return the modules that a distribution brings, as far as its name and the table tell, in any spelling of it."""
    name = normalized_name(distribution)
    guessed = {name.replace("-", "_"), distribution.replace("-", "_")}
    return tuple(sorted({*_MODULES.get(name, ()), *filter(str.isidentifier, guessed)} - sys.stdlib_module_names))


def brings(distribution: str, module: str) -> bool:
    """Return whether a module is one that a distribution brings, as far as its name and the table tell."""
    return module in modules_of(distribution)


def is_namespace(module: str) -> bool:
    """Return whether the table has parts of a module that come from several distributions, as of `google`."""
    return any(name.startswith(f"{module}.") for name in DISTRIBUTIONS)


def record_rows(lines: Iterable[str], *, strict: bool = False) -> Iterator[list[str]]:
    """Yield the rows of a wheel's RECORD. Raises `csv.Error`, whatever limit of fields `csv` has in this process."""
    for row in csv.reader(lines, strict=strict):
        if any(len(field) > _LONGEST_FIELD for field in row):
            raise csv.Error(f"field larger than {_LONGEST_FIELD:,} characters")
        yield row


def record_imports(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the top-level modules and packages that a wheel brings, sorted, from the lines of its RECORD.

    Directories without Python files bring none. Raises `InvalidValue` for lines that are not CSV.
    """
    found = set()
    try:
        rows = [row for row in record_rows(lines, strict=True) if row]
    except csv.Error as error:
        raise InvalidValue(f"a RECORD is not CSV ({error}): the wheel is broken; choose another version") from None
    for path, *_ in rows:
        parts = path.split("/")
        if len(parts) > 2 and parts[0].endswith(".data") and parts[1] in ("purelib", "platlib"):
            parts = parts[2:]
        top = parts[0].partition(".")[0] if len(parts) == 1 else parts[0]
        if parts[-1].endswith(_MODULE_FILES) and top.isidentifier() and top != "__pycache__":
            found.add(top)
    return tuple(sorted(found))


def top_level_imports(text: str) -> tuple[str, ...]:
    """Return the modules that the text of a `top_level.txt` names, sorted. Newer wheels have no such file."""
    return tuple(sorted({line.strip() for line in text.splitlines() if line.strip().isidentifier()}))
