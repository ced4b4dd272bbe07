import fcntl
import mmap
import os
import shutil
import sqlite3
import tempfile
import zipfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    root = Path(folder, "tree")
    root.mkdir()
    path = root / "a"
    path.write_text("text" * 1000)
    path.chmod(0o600)
    os.utime(path)
    os.chown(path, -1, -1)
    shutil.copy2(path, root / "b")
    os.link(path, root / "c")
    (root / "c").rename(root / "d")
    (root / "link").symlink_to("d")
    os.truncate(path, 10)
    os.mkfifo(root / "pipe")
    os.unlink(root / "pipe")

    with open(path, "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        fcntl.lockf(file, fcntl.LOCK_EX)
        mapped = mmap.mmap(file.fileno(), 0)
        mapped[0:4] = b"TEXT"
        mapped.flush()
        os.fsync(file)
    assert path.read_bytes().startswith(b"TEXT")

    for kind in ("zip", "gztar"):
        shutil.make_archive(folder + "/archive", kind, root, "b")
    zipfile.ZipFile(folder + "/archive.zip").extractall(folder + "/out")
    assert os.path.getsize(folder + "/out/b") == 4000
    shutil.copytree(root, folder + "/copy", symlinks=True)
    shutil.rmtree(folder + "/copy")

    database = sqlite3.connect(folder + "/database")
    database.execute("pragma journal_mode=wal")
    database.execute("create table numbers (number)")
    database.executemany("insert into numbers values (?)", [(1,), (2,)])
    database.commit()
    assert database.execute("select sum(number) from numbers").fetchone() == (3,)
    database.close()
