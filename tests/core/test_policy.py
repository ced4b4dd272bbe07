"""Policies are checked when they are made, and the message names what is wrong."""

from __future__ import annotations

import dataclasses
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Any, get_args

import pytest

from actbox import AllowedDomain, FileMount, InvalidValue, Limits, Policy, Secret
from actbox.core import key_places
from actbox.core.mounts import MountMode
from actbox.core.protected_places import why_not_writable, why_private


def test_every_limit_has_a_unit_and_a_default() -> None:
    for spec in dataclasses.fields(Limits):
        assert spec.metadata["unit"]
        assert spec.metadata["about"]
        assert spec.default is None or spec.default > 0
    assert set(Limits().to_dict()) == {spec.name for spec in dataclasses.fields(Limits)}


@pytest.mark.parametrize("name", [spec.name for spec in dataclasses.fields(Limits)])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "5", None, True])
def test_a_limit_that_makes_no_sense_is_named(name: str, value: Any) -> None:
    if value is None and getattr(Limits(), name) is None:
        assert getattr(Limits(**{name: None}), name) is None
        return
    with pytest.raises(InvalidValue, match=f"Limits.{name}"):
        Limits(**{name: value})


@pytest.mark.parametrize("name", [spec.name for spec in dataclasses.fields(Limits)])
def test_a_limit_beyond_what_can_be_kept_is_refused_with_the_most(name: str) -> None:
    (most,) = [spec.metadata["most"] for spec in dataclasses.fields(Limits) if spec.name == name]
    assert getattr(Limits(**{name: most}), name) == most
    for value in (most + 1, 10**30, 10**5000):
        with pytest.raises(InvalidValue, match=rf"Limits\.{name} can be at most {most:,} "):
            Limits(**{name: value})


def test_times_may_be_fractions_and_counts_may_not() -> None:
    assert Limits(wall_seconds=0.5).wall_seconds == 0.5
    with pytest.raises(InvalidValue, match="whole number"):
        Limits(memory_mib=1.5)  # type: ignore[arg-type]


def test_policies_cannot_be_changed() -> None:
    for thing, name in ((Limits(), "wall_seconds"), (Policy(), "limits"), (AllowedDomain("a.example"), "host")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(thing, name, 1)


def test_a_mount_unpacks_as_a_pair_and_lies_below_input(tmp_path: Path) -> None:
    host, guest = FileMount(tmp_path, "data/sales")
    assert (host, guest) == (str(tmp_path), "/input/data/sales")
    assert FileMount(tmp_path, "x").mode == "ro"
    assert FileMount(str(tmp_path), "/data", "rw").mount_path == PurePosixPath("/data")


def test_one_place_in_the_sandbox_has_one_spelling(tmp_path: Path) -> None:
    for spelling in ("a/b", "/input/a/b", "/workspace/input/a/b", "//input//a/./b"):
        assert FileMount(tmp_path, spelling).mount_path == PurePosixPath("/input/a/b")
    with pytest.raises(InvalidValue, match="two mounts"):
        Policy(mounts=(FileMount(tmp_path, "a"), FileMount(tmp_path, "/workspace/input/a")))


def test_a_folder_may_lie_at_input_itself_to_be_read_only(tmp_path: Path) -> None:
    for spelling in ("/input", "/workspace/input", "."):
        assert FileMount(tmp_path, spelling).mount_path == PurePosixPath("/input")
    file = tmp_path / "f"
    file.touch()
    refused: list[tuple[Path, MountMode]] = [(tmp_path, "rw"), (tmp_path, "overlay"), (file, "ro")]
    for host, mode in refused:
        with pytest.raises(InvalidValue, match=r"at /input itself only a directory .* 'ro'; mount this below it"):
            FileMount(host, "/input", mode)
    with pytest.raises(InvalidValue, match="two mounts at /input"):
        Policy(mounts=(FileMount(tmp_path, "/input"), FileMount(tmp_path, "/workspace/input")))


@pytest.mark.parametrize("order", [1, -1])
def test_a_mount_below_another_is_refused_unless_that_is_at_input(tmp_path: Path, order: int) -> None:
    for above, below in (("/data", "/data/sub"), ("a", "a/b/c"), ("/workspace/x", "/workspace/x/y")):
        mounts = [FileMount(tmp_path, above), FileMount(tmp_path, below)][::order]
        with pytest.raises(InvalidValue, match=f"{below} lies below .*{above}, where something else is mounted"):
            Policy(mounts=tuple(mounts))
    for above, below in (("/input", "a/b"), ("/data", "/database"), ("a", "b")):
        Policy(mounts=tuple([FileMount(tmp_path, above), FileMount(tmp_path, below)][::order]))


def test_a_missing_host_path_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "nope"
    with pytest.raises(InvalidValue, match=str(missing)):
        FileMount(missing, "x")
    with pytest.raises(InvalidValue, match="/nope"):
        FileMount("/nope", "/data")


@pytest.mark.parametrize(
    "mount_path",
    ["/", "/usr", "/etc/x", "/proc", "/dev/x", "/tmp/x", "/workspace", "/output", "..", "a/../..", "", "a\0"],
)
def test_a_mount_may_not_hide_what_the_sandbox_is_made_of(tmp_path: Path, mount_path: str) -> None:
    with pytest.raises(InvalidValue, match="FileMount"):
        FileMount(tmp_path, mount_path)


def test_a_mode_that_there_is_not_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="overlay"):
        FileMount(tmp_path, "x", "write")  # type: ignore[arg-type]
    file = tmp_path / "f"
    file.touch()
    with pytest.raises(InvalidValue, match="directory"):
        FileMount(file, "x", "overlay")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The calling user's home folder for a test, with keys and a project in it."""
    home = tmp_path / "homes" / "someone"
    for name in (".ssh", ".aws", ".config/gcloud", ".cache/huggingface/hub", "project/src"):
        (home / name).mkdir(parents=True)
    for name in (".netrc", ".ssh/id_ed25519", ".cache/huggingface/token", "project/main.py"):
        (home / name).write_text("x")
    monkeypatch.setenv("HOME", str(home))
    return home


# As many steps up as lead to the root from any folder; further ones stay there.
_ROOT_BY_CWD = "/proc/self/cwd" + "/.." * 64


@pytest.mark.parametrize(
    "place", ["/", "/proc", "/proc/self", "/proc/self/root", _ROOT_BY_CWD, "/sys", "/sys/kernel", "/dev"]
)
@pytest.mark.parametrize("mode", get_args(MountMode))
def test_the_hosts_own_places_are_not_mounted(place: str, mode: MountMode) -> None:
    with pytest.raises(
        InvalidValue, match=f"FileMount: {place}.* cannot be mounted, since it .*; mount the one directory"
    ):
        FileMount(place, "/data", mode)


@pytest.mark.parametrize(
    "place", ["/dev/null", "/dev/shm", "/run", "/var/run", "/etc/shadow", "/etc", "/home", "/root"]
)
def test_what_holds_devices_sockets_and_passwords_is_not_mounted(place: str) -> None:
    if not os.path.exists(place):
        pytest.skip(f"there is no {place} here")
    with pytest.raises(InvalidValue, match=f"{place}.* cannot be mounted, since it"):
        FileMount(place, "/data")


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("/etc/shadow-", "it has the host's passwords"),
        ("/etc/gshadow-", "it has the host's passwords"),
        ("/etc/security/opasswd", "it has the host's passwords"),
        ("/var/backups/shadow.bak", "it lies in /var/backups, and that has the host's passwords"),
        ("/etc/sudoers", "it says who may become root"),
        ("/etc/sudoers.d/someone", "it lies in /etc/sudoers.d, and that says who may become root"),
        ("/etc/ssh/ssh_host_ed25519_key", "it lies in /etc/ssh, and that has the host's keys"),
        ("/etc/krb5.keytab", "it has the host's keys"),
        ("/etc/letsencrypt/archive", "it lies in /etc/letsencrypt, and that has the host's keys"),
        ("/etc/wireguard", "it has the passwords and keys of the host's networks"),
        ("/etc/docker", "it belongs to a container engine"),
        ("/var/lib/etcd", "it has the keys of a cluster"),
        ("/etc/passwd", ""),
        ("/etc/passwd-", ""),
        ("/etc/sudo.conf", ""),
        ("/var/lib/postgresql", ""),
    ],
)
def test_a_private_place_is_known_whether_this_host_has_it_or_not(place: str, reason: str) -> None:
    assert why_private(Path(place)) == reason


@pytest.mark.parametrize("name", ["/etc/shadow-", "/etc/gshadow-"])
@pytest.mark.parametrize("linked", [False, True])
def test_the_backup_of_a_password_file_is_not_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, linked: bool
) -> None:
    places = key_places.SYSTEM["has the host's passwords"]
    assert name in places
    # Stands for the host's own, which not every host has.
    backup = tmp_path / "etc" / name.rpartition("/")[2]
    backup.parent.mkdir()
    backup.write_text("root:x")
    moved = {"has the host's passwords": tuple(str(backup) if place == name else place for place in places)}
    monkeypatch.setattr(key_places, "SYSTEM", moved)
    meant = backup
    if linked:
        meant = tmp_path / "hard"
        meant.hardlink_to(backup)
    with pytest.raises(InvalidValue, match=f"{meant} cannot be mounted, since it .*has the host's passwords"):
        FileMount(meant, "/data/s")
    with pytest.raises(InvalidValue, match=f"since it has {backup} in it, and that has the host's passwords"):
        FileMount(backup.parent, "/data/s")


@pytest.mark.parametrize(
    "name", [".ssh", ".ssh/id_ed25519", ".aws", ".config/gcloud", ".netrc", ".cache/huggingface/token"]
)
def test_keys_are_not_mounted(home: Path, name: str) -> None:
    with pytest.raises(InvalidValue, match=f"{home / name} cannot be mounted, since it .*keys and passwords"):
        FileMount(home / name, "/data")


@pytest.mark.parametrize("name", [".config", ".cache", ".cache/huggingface"])
def test_a_folder_with_keys_in_it_is_not_mounted(home: Path, name: str) -> None:
    with pytest.raises(InvalidValue, match=f"{home / name} cannot be mounted, since it has {home / name}/.* in it"):
        FileMount(home / name, "/data")


@pytest.mark.parametrize(
    "name", [".claude", ".codex", ".databricks.cfg", ".snowflake", ".Xauthority", ".age", ".env", ".pip/pip.conf"]
)
def test_what_newer_programs_keep_keys_in_is_not_mounted(home: Path, name: str) -> None:
    (home / name).parent.mkdir(exist_ok=True)
    (home / name).write_text("x")
    with pytest.raises(InvalidValue, match=f"{home / name} cannot be mounted, since it .*keys and passwords"):
        FileMount(home / name, "/data")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (".docker/config.json", "for clusters and by container engines"),
        (".config/containers/auth.json", "for clusters and by container engines"),
        (".local/share/containers/storage", "for clusters and by container engines"),
        (".git-credentials", "for code hosts"),
        (".pypirc", "for registries of packages"),
        (".condarc", "for registries of packages"),
        (".config/mozilla/firefox", "by browsers"),
        (".config/google-chrome-beta", "by browsers"),
        (".config/Bitwarden/data.json", "for other machines"),
        (".curlrc", "for other machines"),
        (".fly/config.yml", "for clouds"),
        (".pg_service.conf", "for databases"),
        (".config/Signal", "for mail and messages"),
        (".local/share/opencode/auth.json", "by agents"),
    ],
)
def test_a_refusal_says_what_the_keys_are_for(home: Path, name: str, reason: str) -> None:
    (home / name).parent.mkdir(parents=True, exist_ok=True)
    (home / name).write_text("x")
    with pytest.raises(InvalidValue, match=f"keys and passwords are kept {reason}"):
        FileMount(home / name, "/data")


def test_the_tables_of_protected_places_name_each_place_once_and_in_full() -> None:
    system = [name for names in key_places.SYSTEM.values() for name in names]
    homes = [name for names in key_places.KEYS.values() for name in names] + list(key_places.HISTORIES)
    for names in (system, homes, list(key_places.VARIABLES)):
        assert len(set(names)) == len(names)
    assert all(os.path.isabs(name) and os.path.normpath(name) == name for name in system)
    assert not any(os.path.isabs(name) or os.path.normpath(name) != name for name in homes)


@pytest.mark.parametrize("name", [".bash_history", ".python_history", ".psql_history", ".local/share/fish"])
def test_what_was_typed_is_not_mounted(home: Path, name: str) -> None:
    (home / name).mkdir(parents=True)
    with pytest.raises(InvalidValue, match="what was typed in it, passwords too"):
        FileMount(home / name, "/data")


@pytest.mark.parametrize("name", [".config", ".local", ".local/share", ".cache"])
def test_where_programs_keep_settings_is_not_mounted_as_a_whole(home: Path, tmp_path: Path, name: str) -> None:
    shutil.rmtree(home / name, ignore_errors=True)
    (home / name / "some program").mkdir(parents=True)
    with pytest.raises(InvalidValue, match=f"{home / name} cannot be mounted, since it .*their settings"):
        FileMount(home / name, "/data")
    inside = home / name / "some program"
    assert FileMount(inside, "/data").host_path == inside
    elsewhere = tmp_path / "disk"
    elsewhere.mkdir()
    (home / name).rename(elsewhere / "moved")
    (home / name).symlink_to(elsewhere / "moved")
    for folder in (elsewhere, elsewhere / "moved"):
        with pytest.raises(InvalidValue, match="their settings"):
            FileMount(folder, "/data")


def test_the_variables_of_a_project_are_mounted_with_it(home: Path) -> None:
    (home / "project" / ".env").write_text("x")
    assert FileMount(home / "project", "/data").host_path == home / "project"


@pytest.mark.parametrize(
    "place", ["/etc/systemd", "/etc/cron.d", "/etc/hostname", "/usr", "/usr/bin", "/var/spool", "/lib", "/boot"]
)
def test_what_the_host_runs_may_be_read_and_not_changed(place: str) -> None:
    real = os.path.realpath(place)
    assert "the host runs programs" in why_not_writable(Path(real))
    if os.path.exists(place):
        with pytest.raises(InvalidValue, match=f"{real} cannot be mounted 'rw', since it .*; mount it 'ro', or"):
            FileMount(place, "/data", "rw")
        assert FileMount(place, "/data", "ro").host_path == Path(real)


def test_the_environment_that_python_imports_from_is_not_changed(tmp_path: Path) -> None:
    for place in (sys.prefix, os.path.dirname(os.__file__), os.path.dirname(pytest.__file__)):
        assert why_not_writable(Path(os.path.realpath(place))), place
    assert why_not_writable(tmp_path) == ""
    assert FileMount(tmp_path, "/data", "rw").mode == "rw"


@pytest.mark.slow
def test_a_second_mount_of_what_the_host_runs_is_that_place(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount something on the host")
    alias = tmp_path / "alias"
    alias.mkdir()
    code = (
        "import sys, actbox\ntry:\n    actbox.FileMount(sys.argv[1], '/data', 'rw')\n"
        "except actbox.InvalidValue as error:\n    print(error)"
    )
    for source, inside in (("/etc", "/default"), ("/usr", "/bin"), ("/usr/bin", "")):
        command = f'mount --bind {source} {alias} && exec {shlex.quote(sys.executable)} -c "$0" {alias}{inside}'
        done = subprocess.run(["unshare", "-m", "sh", "-c", command, code], capture_output=True, text=True, check=True)
        assert f"{alias}{inside} cannot be mounted 'rw'" in done.stdout, (source, inside, done.stdout)


def test_a_home_folder_and_what_it_lies_in_are_not_mounted(home: Path) -> None:
    for folder in (home, home.parent, home.parent.parent):
        with pytest.raises(InvalidValue, match=f"{folder} cannot be mounted, since it .*the home directory {home}"):
            FileMount(folder, "/data")
    with pytest.raises(InvalidValue, match="home directory"):
        FileMount("~", "/data")


def test_other_folders_of_a_home_are_mounted(home: Path) -> None:
    for name in ("project", "project/src", "project/main.py", ".cache/huggingface/hub"):
        assert FileMount(home / name, "/data").host_path == home / name


def test_a_link_to_a_private_place_is_that_place(home: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    for target in ("/proc", home, home / ".ssh", home / ".ssh/id_ed25519"):
        link.symlink_to(target)
        with pytest.raises(InvalidValue, match=f"{link}, which is {target}, cannot be mounted"):
            FileMount(link, "/data")
        link.unlink()


@pytest.mark.slow
def test_a_second_mount_of_a_private_place_is_that_place(home: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount something on the host")
    alias = tmp_path / "alias"
    alias.mkdir()
    code = (
        "import sys, actbox\ntry:\n    actbox.FileMount(sys.argv[1], '/data')\nexcept actbox.InvalidValue as error:\n"
    )
    code += "    print(error)"
    for source, inside in ((home, ""), (home, "/.ssh"), (home / ".ssh", ""), (home / ".ssh", "/id_ed25519")):
        command = f'mount --bind {source} {alias} && exec {shlex.quote(sys.executable)} -c "$0" {alias}{inside}'
        done = subprocess.run(["unshare", "-m", "sh", "-c", command, code], capture_output=True, text=True, check=True)
        assert f"{alias}{inside} cannot be mounted" in done.stdout, (source, inside)
    command = f'mount --bind {home} {alias} && exec {shlex.quote(sys.executable)} -c "$0" {alias}/project'
    done = subprocess.run(["unshare", "-m", "sh", "-c", command, code], capture_output=True, text=True, check=True)
    assert done.stdout == ""


def test_keys_that_are_kept_elsewhere_by_a_link_are_not_mounted(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "vault" / "gnupg"
    elsewhere.mkdir(parents=True)
    (home / ".gnupg").symlink_to(elsewhere)
    for folder in (elsewhere, elsewhere.parent):
        with pytest.raises(InvalidValue, match="keys and passwords"):
            FileMount(folder, "/data")


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("KUBECONFIG", "/none:{}/x"),
        ("SSH_AUTH_SOCK", "{}/x"),
        ("DOCKER_HOST", "unix://{}/x"),
        ("GNUPGHOME", "{}/x"),
        ("KRB5CCNAME", "FILE:{}/x"),
        ("REGISTRY_AUTH_FILE", "{}/x"),
        ("PGPASSFILE", "{}//x/"),
    ],
)
def test_what_a_variable_names_as_keys_or_a_socket_is_not_mounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "x").touch()
    FileMount(tmp_path / "kept", "/data")
    monkeypatch.setenv(variable, value.format(tmp_path / "kept"))
    for place in (tmp_path / "kept", tmp_path / "kept" / "x"):
        with pytest.raises(InvalidValue, match=f"what the variable {variable} names"):
            FileMount(place, "/data")


def test_what_is_neither_a_file_nor_a_folder_is_not_mounted(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidValue, match="neither a file nor a directory"):
        FileMount(tmp_path / "pipe", "/data")


def test_changes_are_kept_of_overlays_only(tmp_path: Path) -> None:
    assert FileMount(tmp_path, "x", "overlay", keep_changes=True).keep_changes
    assert not FileMount(tmp_path, "x", "overlay").keep_changes
    for mode in ("ro", "rw"):
        with pytest.raises(InvalidValue, match="keep_changes needs mode 'overlay', not '"):
            FileMount(tmp_path, "x", mode, keep_changes=True)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("target", "normal", "ports"),
    [
        ("API.Example.COM", "api.example.com", {80, 443}),
        ("https://example.com", "https://example.com", {443}),
        ("http://example.com/", "http://example.com", {80}),
        ("example.com:8080", "example.com:8080", {8080}),
        ("HTTPS://Example.com:8443", "https://example.com:8443", {8443}),
        ("*.example.com", "*.example.com", {80, 443}),
        ("bücher.example", "xn--bcher-kva.example", {80, 443}),
        ("example.com.", "example.com", {80, 443}),
        ("10.0.0.1:81", "10.0.0.1:81", {81}),
        ("[::1]:81", "[::1]:81", {81}),
        ("localhost", "localhost", {80, 443}),
    ],
)
def test_a_domain_is_normalised_once(target: str, normal: str, ports: set[int]) -> None:
    domain = AllowedDomain(target)
    assert domain.target == str(domain) == normal
    assert domain.ports == ports
    assert AllowedDomain(domain.target) == domain


@pytest.mark.parametrize(
    ("target", "matched", "others"),
    [
        (
            "a.example",
            ["http a.example 80", "https a.example 443"],
            ["http a.example 443", "https a.example 80", "https a.example 8443", "https b.a.example 443"],
        ),
        ("https://a.example", ["https a.example 443"], ["http a.example 80"]),
        ("a.example:81", ["http a.example 81", "https a.example 81"], ["http a.example 80", "https a.example 443"]),
        (
            "*.a.example",
            ["https b.a.example 443", "http c.b.a.example 80"],
            ["https a.example 443", "https ba.example 443", "https a.example.b 443"],
        ),
        ("[::1]:81", ["http ::1 81"], ["http ::2 81", "http 0.0.0.1 81"]),
    ],
)
def test_an_entry_matches_by_scheme_host_and_port(target: str, matched: list[str], others: list[str]) -> None:
    def matches(place: str) -> bool:
        scheme, host, port = place.split()
        return AllowedDomain(target).matches("http" if scheme == "http" else "https", host, int(port))

    assert [place for place in matched + others if matches(place)] == matched


def test_the_more_narrowly_an_entry_is_meant_the_more_specific_it_is() -> None:
    narrowing = [
        "*.example",
        "https://*.example",
        "*.example:8443",
        "https://*.example:8443",
        "*.a.example",
        "a.example",
        "http://a.example",
        "a.example:80",
        "http://a.example:80",
    ]
    assert sorted(narrowing, key=lambda target: AllowedDomain(target).specificity) == narrowing


@pytest.mark.parametrize("name", ["requests_per_minute", "request_bytes", "response_bytes", "seconds"])
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "5", None, True])
def test_a_bound_that_makes_no_sense_is_named(name: str, value: Any) -> None:
    with pytest.raises(InvalidValue, match=rf"AllowedDomain\('a.example'\).*{name}"):
        AllowedDomain("a.example", **{name: value})


def test_private_addresses_are_meant_only_on_request() -> None:
    assert AllowedDomain("a.example").private is False
    with pytest.raises(InvalidValue, match="private"):
        AllowedDomain("a.example", private="no")  # type: ignore[arg-type]


def test_methods_are_upper_case_and_each_once() -> None:
    assert AllowedDomain("a.example", ["get", "POST", "Get"]).methods == ("GET", "POST")
    assert AllowedDomain("a.example").methods is None


@pytest.mark.parametrize(
    "target",
    [
        "",
        " ",
        "https://a.example/path",
        "a.example/path",
        "a.example?x=1",
        "a.example#x",
        "user@a.example",
        "https://user:pass@a.example",
        "ftp://a.example",
        "a.example:0",
        "a.example:99999",
        "a.example:x",
        "a.example:",
        "*",
        "a.*.example",
        "*a.example",
        "-a.example",
        "a..example",
        "a b.example",
        "a.example\\@b.example",
        "a" * 64 + ".example",
        "https://",
        "127.1",
        "0x7f.0.0.1",
        "2130706433",
        "010.0.0.1",
        "1.2.3.4.5",
        "a.example.1",
        "*.0.0.1",
    ],
)
def test_a_target_that_is_no_host_is_refused(target: str) -> None:
    with pytest.raises(InvalidValue, match="AllowedDomain"):
        AllowedDomain(target)


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "169.254.0.1:8080",
        "http://169.254.170.2",
        "100.100.100.200",
        "168.63.129.16",
        "0.0.0.0",
        "[fe80::1]",
        "[::]",
        "[fe80::1%25eth0]",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
    ],
)
@pytest.mark.parametrize("private", [False, True])
def test_no_entry_names_a_metadata_service_or_a_special_address(address: str, private: bool) -> None:
    with pytest.raises(InvalidValue, match=r"no program may reach .* and those of cloud metadata services"):
        AllowedDomain(address, private=private)
    with pytest.raises(InvalidValue, match="number 1 of its domains must be a host"):
        Secret("token", "a-long-value", [address])


def test_a_wildcard_for_everybody_is_refused_and_one_for_a_network_of_ones_own_is_not() -> None:
    for target in ("*.com", "https://*.io:8443", "*.рф"):
        with pytest.raises(
            InvalidValue, match=r"is everybody's; name the domain that is meant, such as '\*\.example\."
        ):
            AllowedDomain(target)
    for target in ("*.internal", "*.test", "*.example.com", "*.b.c"):
        assert AllowedDomain(target).host == target


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("127.1", "'127.1' is no address; an IPv4 address is four numbers, such as '127.0.0.1'"),
        ("::1", r"an IPv6 address stands in brackets: '\[::1\]', with a port '\[::1\]:8080'"),
        ("2001:4860:4860::8888", r"in brackets: '\[2001:4860:4860::8888\]'"),
    ],
)
def test_an_address_that_is_written_wrong_says_how_to_write_it(target: str, words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        AllowedDomain(target)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("GTE", "'GTE' is not a method of HTTP; GET perhaps"),
        ("XYZZY", "'XYZZY' is not a method of HTTP"),
        ("connect", "leave out the method CONNECT: clients use it to reach the proxy"),
        ("TRACE", "leave out the method TRACE: it is refused everywhere"),
    ],
)
def test_a_method_that_would_do_nothing_is_refused(method: str, words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        AllowedDomain("a.example", ["GET", method])


def test_a_secret_that_could_be_guessed_is_refused_unless_it_goes_nowhere() -> None:
    with pytest.raises(InvalidValue, match=r"Secret\('g'\): the value has fewer than 8 characters") as caught:
        Secret("g", "abc1234", ["a.example"])
    assert "abc" not in str(caught.value)
    assert Secret("g", "abc", as_file=True).value == "abc"


@pytest.mark.parametrize("methods", [[], "GET", ["G ET"], [""], [1], 5])
def test_methods_that_are_none_are_refused(methods: Any) -> None:
    with pytest.raises(InvalidValue, match="method"):
        AllowedDomain("a.example", methods)


def test_a_secret_shows_its_value_to_nobody() -> None:
    secret = Secret("github", "s3cr3t-value", domains=["api.github.example"])
    assert "s3cr3t-value" not in repr(secret)
    assert "s3cr3t-value" not in repr(Policy(domains=(AllowedDomain("api.github.example"),), secrets=(secret,)))


def test_a_secret_needs_an_allowed_domain_to_go_to() -> None:
    secret = Secret("github", "xxxxxxxx", domains=["api.github.example"])
    with pytest.raises(InvalidValue, match=r"api\.github\.example"):
        Policy(secrets=(secret,))


@pytest.mark.parametrize(
    ("target", "allowed", "fits"),
    [
        ("api.github.example", "*.github.example", True),
        ("*.github.example", "api.github.example", True),
        ("api.github.example", "https://api.github.example:443", True),
        ("https://api.github.example", "http://api.github.example", False),
        ("api.github.example", "api.github.example:8443", False),
        ("github.example", "*.github.example", False),
    ],
)
def test_a_secret_must_be_able_to_reach_its_domain(target: str, allowed: str, fits: bool) -> None:
    policy = {"secrets": (Secret("github", "xxxxxxxx", domains=[target]),), "domains": (AllowedDomain(allowed),)}
    if fits:
        assert Policy(**policy).secrets  # type: ignore[arg-type]
        return
    with pytest.raises(InvalidValue, match=r"does not allow"):
        Policy(**policy)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("domain", "allowed", "words"),
    [
        (
            "api.x",
            "http://api.x",
            r"goes to https://api\.x on port 443.*'http://api\.x' in the secret's domains.*'https://api\.x'.* the pol",
        ),
        ("http://api.x", "https://api.x", r"goes to http://api\.x on port 80.*write 'https://api\.x'"),
        ("api.x", "https://api.x:8443", r"on port 443, .* it has https://api\.x:8443; write 'https://api\.x:8443' in"),
        ("api.b.x", "*.b.x:8443", r"it has \*\.b\.x:8443; write 'api\.b\.x:8443' in"),
        ("*.b.x", "http://api.b.x", r"write 'http://api\.b\.x' in the secret's"),
        ("api.x", "other.x", r"does not allow; add AllowedDomain\('https://api\.x'\)"),
    ],
)
def test_a_secret_that_can_never_be_sent_is_refused_with_what_to_write(domain: str, allowed: str, words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        Policy(domains=(AllowedDomain(allowed),), secrets=(Secret("a", "bbbbbbbb", [domain]),))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.lan", "a.lan"),
        ("a.lan", "*.lan"),
        ("a.lan", "https://a.lan:443"),
        ("http://a.lan", "http://*.lan"),
        ("b.lan a.lan", "c.lan a.lan"),
    ],
)
def test_two_secrets_for_one_header_of_one_request_are_refused(one: str, other: str) -> None:
    domains = tuple(AllowedDomain(host) for host in ("a.lan", "b.lan", "c.lan"))
    first, second = (
        Secret("one", "11111111", one.split()),
        Secret("other", "22222222", other.split(), "authorization: {}"),
    )
    with pytest.raises(
        InvalidValue, match=r"'one' and 'other' would both set the header 'authorization' .* to \S*a\.lan[:;]"
    ):
        Policy(domains=domains, secrets=(first, second))
    elsewhere = Secret("other", "22222222", ["c.lan"])
    assert Policy(domains=domains, secrets=(first, Secret("other", "22222222", other.split(), "X-Key: {}"))).secrets
    if "c.lan" not in other:
        assert Policy(domains=domains, secrets=(first, elsewhere)).secrets


def test_two_secrets_of_one_name_are_refused() -> None:
    secrets = (Secret("a", "11111111", ["a.x"]), Secret("a", "22222222", ["b.x"]))
    with pytest.raises(InvalidValue, match="two secrets are called 'a'"):
        Policy(domains=(AllowedDomain("a.x"), AllowedDomain("b.x")), secrets=secrets)


def test_a_secret_goes_encrypted_unless_its_own_domain_says_otherwise() -> None:
    secret = Secret("github", "xxxxxxxx", domains=["api.example", "http://intra.example", "*.b.example:8443"])
    assert secret.goes_to("https", "api.example", 443)
    assert secret.goes_to("http", "intra.example", 80)
    assert secret.goes_to("https", "a.b.example", 8443)
    assert not secret.goes_to("http", "api.example", 80)
    assert not secret.goes_to("https", "intra.example", 443)
    assert not secret.goes_to("https", "a.b.example", 443)
    assert not secret.goes_to("http", "a.b.example", 8443)


@pytest.mark.parametrize(
    "given",
    [
        {"name": "two words"},
        {"value": ""},
        {"value": "a\nb"},
        {"value": "a\x1bb"},
        {"value": " a"},
        {"header": "Host: {}"},
        {"header": "content-length: {}"},
        {"header": None},
        {"domains": []},
        {"domains": None},
        {"domains": 5},
        {"domains": None, "as_file": True},
        {"domains": AllowedDomain("a.example")},
        {"domains": "a.example"},
        {"header": "no placeholder"},
        {"header": "X: {}\r\nY: {}"},
    ],
)
def test_a_secret_that_makes_no_sense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match="Secret"):
        Secret(**{"name": "n", "value": "vvvvvvvv", "domains": ["a.example"], **given})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("ghp_abc.DEF-secret=", "github", ["api.github.com"]), "the name, its first argument, must be a word"),
        ((b"ghp_abc", "github", ["api.github.com"]), "the name, its first argument, must be a word"),
        (
            ("k", "VVVVVVVV", ["a.example", "ghp_abc DEF"]),
            r"Secret\('k'\): number 2 of its domains must be a host such as",
        ),
        (("k", "VVVVVVVV", ["https://user:ghp_abc@a.example"]), "number 1 of its domains"),
        (("k", "VVVVVVVV", ["ghp_abc://a.example"]), "number 1 of its domains"),
        (("k", "VVVVVVVV", [b"ghp_abc"]), "number 1 of its domains"),
        (("k", "VVVVVVVV", "ghp_abc"), "domains is a non-empty list"),
        (("k", "VVVVVVVV", ["a.example"], "Authorization: Bearer ghp_abc"), "header must look like"),
        (("k", "VVVVVVVV", ["a.example"], "ghp_abc: {}"), "header must look like"),
        (("k", " ghp_abc", ["a.example"]), "the value must be"),
    ],
)
def test_no_message_of_a_secret_shows_what_may_be_its_value(given: tuple[Any, ...], words: str) -> None:
    with pytest.raises(InvalidValue, match=words) as caught:
        Secret(*given)
    error: BaseException | None = caught.value
    while error is not None:
        assert "ghp_abc" not in str(error)
        error = error.__cause__ or error.__context__


def test_a_policy_takes_lists_and_keeps_them_frozen(tmp_path: Path) -> None:
    mounts = [FileMount(tmp_path, "a")]
    policy = Policy(mounts=mounts, variables={"A": "1"})  # type: ignore[arg-type]
    mounts.append(FileMount(tmp_path, "b"))
    assert len(policy.mounts) == 1
    with pytest.raises(InvalidValue, match="mounts"):
        Policy(mounts=["/data"])  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="variable"):
        Policy(variables={"A=": "1"})


def test_a_secrets_domains_may_be_the_policys_own_entries() -> None:
    assert Secret("a", "a-value-of-it", [AllowedDomain("HTTP://A.example:81", ["GET"])]).domains == (
        "http://a.example:81",
    )


def test_a_secret_from_a_variable_that_is_not_set_says_so() -> None:
    with pytest.raises(InvalidValue, match=r"Secret\('a'\): the value is None; is its environment variable set"):
        Secret("a", os.environ.get("NO_SUCH_VARIABLE_HERE"), ["a.example"])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"domains": "api.github.com"}, r"not 'api\.github\.com': write \[AllowedDomain\('api\.github\.com'\)\]"),
        ({"domains": ["a.example"]}, r"write \[AllowedDomain\('a\.example'\)\]"),
        ({"domains": None}, r"AllowedDomain values, not None: write \[AllowedDomain"),
        ({"domains": AllowedDomain("a.example")}, r"Policy.domains is a tuple: write \(AllowedDomain\(…\),\)"),
        ({"mounts": FileMount("/usr/share", "data")}, r"Policy.mounts is a tuple: write \(FileMount\(…\),\)"),
        ({"mounts": "/srv"}, r"not '/srv': write \[FileMount\("),
        ({"secrets": "the-value"}, r"takes Secret values, not str: write \[Secret\("),
        ({"variables": ["A=1"]}, r"a dict such as .*, not list"),
        ({"preload": None}, r"preload is a list such as \['numpy'\], not None"),
    ],
)
def test_a_policy_that_is_written_wrong_says_how_to_write_it(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=words) as caught:
        Policy(**given)
    assert "the-value" not in str(caught.value)


def test_a_mount_without_one_of_its_paths_is_refused(tmp_path: Path) -> None:
    for path in (None, 5, b"/srv"):
        with pytest.raises(InvalidValue, match=f"FileMount needs a host path such as .*, not {path!r}"):
            FileMount(path, "x")  # type: ignore[arg-type]
        with pytest.raises(InvalidValue, match=f"FileMount needs a mount path such as .*, not {path!r}"):
            FileMount(tmp_path, path)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["/usr/lib", "/workspace/../etc", "lib:/etc", "/data", "../lib"])
def test_modules_come_from_the_workspace_and_mounts_only(path: str, tmp_path: Path) -> None:
    Policy(variables={"PYTHONPATH": "lib:/workspace/a:/input/b:/output:"})
    Policy(variables={"PYTHONPATH": "/data/lib"}, mounts=(FileMount(tmp_path, "/data"),))
    with pytest.raises(InvalidValue, match="PYTHONPATH"):
        Policy(variables={"PYTHONPATH": path})


def test_a_folder_for_pip_is_refused() -> None:
    with pytest.raises(InvalidValue, match="PIP_TARGET"):
        Policy(variables={"PIP_TARGET": "/workspace/lib"})
