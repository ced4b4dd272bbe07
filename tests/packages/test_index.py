"""The package index: how this machine's settings name it, and whom else it may send to."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from actbox import Policy
from actbox.core.errors import InvalidValue
from actbox.core.packages import PackagePolicy, PackageRules
from actbox.packages.index import Index, find_index, reach, without_secrets

from .index_server import IndexServer, serving_index
from .kits import policy_of, run


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of settings of a user who has none yet."""
    for tool in ("UV", "PIP"):
        for name in ("DEFAULT_INDEX", "INDEX", "INDEX_URL", "EXTRA_INDEX_URL", "FIND_LINKS", "NO_INDEX", "CONFIG_FILE"):
            monkeypatch.delenv(f"{tool}_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("actbox.packages.index.MACHINE_SETTINGS", tmp_path / "etc")
    return tmp_path


def test_the_index_is_that_of_uv_itself_where_no_settings_name_one(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = find_index()
    assert urlsplit(own.default).scheme == "https" and not own.extra and not own.links
    monkeypatch.setenv("PIP_FIND_LINKS", "/srv/wheels")
    assert find_index().addresses == (own.default, "file:///srv/wheels")


def test_settings_without_an_index_have_links_alone(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://index.example/simple")
    with pytest.raises(InvalidValue, match="no package index is configured"):
        find_index()
    (bare / "uv").mkdir()
    (bare / "uv" / "uv.toml").write_text('no-index = true\nfind-links = ["/srv/wheels"]\n')
    assert find_index().addresses == ("file:///srv/wheels",)


async def test_files_are_fetched_from_the_host_to_which_the_index_links(index: IndexServer) -> None:
    with serving_index(index.folder) as files:
        index.files_at = files.address.removesuffix("/simple")
        result = await run(policy_of(index), "import kit_greeting\nkit_greeting.greeting", "kit-greeting")
    assert (result.value, result.error) == ("hello", None)
    assert files.files_fetched() and not index.files_fetched()


@pytest.mark.parametrize(
    ("index_address", "linked", "reached"),
    [
        ("https://index.example/simple", "https://files.example:443", "public"),
        ("https://index.corp.example/simple", "https://files.corp.example:443", "private"),
        ("https://index.example/simple", "https://127.0.0.1:443", ""),
        ("https://index.example/simple", "https://169.254.169.254:443", ""),
        ("https://10.0.0.1/simple", "https://10.0.0.2:443", "private"),
    ],
)
def test_a_public_index_sends_nobody_into_a_private_network(index_address: str, linked: str, reached: str) -> None:
    _, *others = reach(Index(default=index_address), [linked]).domains
    assert [("private" if one.private else "public") for one in others] == ([reached] if reached else [])
    assert all(one.methods == ("GET", "HEAD") for one in others)


@pytest.mark.parametrize(
    "address", ["https://user:S3C/RET@packages.example/simple", "https://user:[S3C@packages.example", "ftp://u:S3C@h/"]
)
def test_an_address_that_cannot_be_read_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(InvalidValue, match=r"packages\.example/simple") as refused:
        find_index(address)
    assert "S3C" not in str(refused.value)


async def test_a_token_in_the_address_of_an_index_is_in_no_error(index: IndexServer) -> None:
    token = "S3CRET"
    policy = Policy(
        environment="clean",
        packages=PackagePolicy(
            python=PackageRules(auto_approved=["kit-gone"]), index=f"{index.address}/?token={token}"
        ),
    )
    result = await run(policy, "1", "kit-gone")
    assert result.error is not None and "kit-gone" in result.error.message and token not in str(result.error)


def test_user_information_and_queries_are_taken_out_of_a_text() -> None:
    said = "error at `https://u:p@a.example/simple?token=x`: no (https://b.example?y) https://c.example/@scope/d"
    assert without_secrets(said) == (
        "error at `https://a.example/simple`: no (https://b.example) https://c.example/@scope/d"
    )
