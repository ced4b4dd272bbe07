"""One run in the guest, from the message that says what to run to the message with its result.

The process is fresh and is used once; a session (`session.py`) also has one process, for all of its runs. Standard
output and error are pipes that the host reads; the channel carries only messages.
"""

from __future__ import annotations

import gc
import io
import os
import resource
import signal
import socket
import sys
import time

from . import display
from .blocked import refuse_blocked
from .channel import ChannelClosed, HostChannel
from .command import replace_with_command
from .error_hints import describe_exception
from .figures import catch_figures, save_into, save_open_figures
from .finish import flush_all, is_alone, note_exit, save_anyway, send_result, wait_for_threads
from .imports import fork_by_default
from .limits import apply_limits, data_bytes
from .program import Compiled, compile_program, import_from, new_main, run_in, set_out
from .randomness import reseed
from .rehearsal import rehearse
from .session import serve_session
from .signals import reset_handlers, unblock_signals
from .spare_descriptors import spare
from .spawned import let_children_import, note_tools
from .tools import bind_tools, bind_types
from .traces import keep_guest_out_of_warnings
from .value import describe_value
from .wire import EXIT_CHANNEL_LOST, EXIT_TOLD

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, NoReturn, Optional

# A guest that gets its program sooner is one of many in a row, and the processor has better to do than to rehearse.
SOON_MS = 5


def main(
    descriptor: int,
    go: int = -1,
    enclose: Callable[[], None] = lambda: None,
    is_prepared: bool = False,
    ahead: Optional[Dict[str, Any]] = None,
) -> NoReturn:
    """Serve one run over the channel at `descriptor`, and end the process.

    All preparation that needs no message is done before the first one comes, so that a waiting guest has little left to
    do. `go` is a pipe that tells when the run's files and mounts are ready; -1 if they are from the start. `enclose` is
    called after that, before any code of the program runs. `is_prepared` is true if this process was forked from one
    that called `prepare`. `ahead` has the fields of the message that are known before it comes, for `settle`; if it is
    empty or `None`, none are.
    """
    if is_prepared:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    else:
        prepare()
    unblock_signals()
    sock = socket.socket(fileno=descriptor)
    channel = HostChannel(sock, wire_limit_until_told())
    reseed()
    os.register_at_fork(after_in_child=channel.leave_to_parent)
    if not channel.is_written_to(SOON_MS):
        rehearse(channel)
    used_bytes = data_bytes()
    if ahead:
        settle(ahead, used_bytes)
        if "open_files" in ahead["limits"]:
            spare.reserve()
    gc.freeze()
    try:
        message = channel.receive_first()
        if message["t"] == "soon":
            channel.await_message()
            message = channel.receive_first()
    except ChannelClosed:
        os._exit(0)  # the host disconnected before it sent a program

    def wait() -> None:
        _wait_for(go)
        enclose()

    serve(channel, message, used_bytes, wait, ahead)


def settle(message: Dict[str, Any], used_bytes: int) -> None:
    """Set what runs have in common: the process's limits, variables, and the directories of files and modules.

    `used_bytes` is the process's memory before the program.
    """
    os.environ.update(message["variables"])
    os.umask(0o022)
    apply_limits(message["limits"], used_bytes)
    sys.path.insert(0, message["workspace"])
    import_from(message["variables"])
    save_into(os.path.join(message["workspace"], "output"))


def prepare() -> None:
    """Set what is the same for every guest, in the guest or once in the process that forks guests.

    Standard output and error must be pipes if the guests' are, because Python's streams note whether they can seek. A
    process that forks guests may change its signal handlers afterwards, if its children set them back.
    """
    reset_handlers()
    own_streams()
    fork_by_default()
    let_children_import()
    keep_guest_out_of_warnings()
    catch_figures()
    display.catch_pictures()


def wire_limit_until_told() -> int:
    """Return the most bytes of the first message, which carries the program and the limit for all later messages."""
    return 64 * 2**20


def _wait_for(go: int) -> None:
    if go >= 0:
        if not os.read(go, 1):
            os._exit(0)  # the sandbox has been discarded
        os.close(go)


def serve(
    channel: HostChannel,
    message: Dict[str, Any],
    used_bytes: int,
    wait: Callable[[], None],
    ahead: Optional[Dict[str, Any]] = None,
) -> NoReturn:
    """Run what the message says, send its result, and end the process.

    `used_bytes` is the process's memory before the program. `wait` returns when the sandbox is ready for the program.
    `ahead` are the fields of the message that are settled already.
    """
    if not ahead:
        settle(message, used_bytes)
    else:
        apply_limits({name: message["limits"][name] for name in message["limits"].keys() - ahead["limits"]}, used_bytes)
        if message["variables"] != ahead["variables"]:
            os.environ.update(message["variables"])  # a command's own are added
    if message["t"] == "exec":
        if channel.stdin >= 0:
            os.dup2(channel.stdin, 0)
        wait()
        if message.get("channel"):  # the guest of another language
            channel.hand_over()
        replace_with_command(message)
    started = time.process_time()
    channel.max_bytes = message["message_bytes"]
    folder = message["workspace"]
    sys.argv = [message["name"]]
    refuse_blocked(message)
    owner = os.getpid()
    if message["t"] == "session":
        wait()
        if failure := _enter(folder, message["name"]):
            send_result(channel, failure)
            os._exit(failure["exit"])
        serve_session(channel, message.get("packages", ""))

    done: Dict[str, Any] = {"t": "done", "exit": 0}
    names: Dict[str, Any] = {}
    try:
        compiled: Optional[Compiled] = compile_program(message["code"], message["name"])
    except SyntaxError as error:
        compiled = None
        done["error"] = describe_exception(error, message["name"])
        done["exit"] = 1
    if compiled is not None:
        names = bind_tools(message["tools"], channel, compiled.awaits, message["name"])
        names.update(message["inputs"])
        note_tools(message["tools"])
        bind_types(message, names)
    wait()
    if failure := _enter(folder, message["name"]):
        compiled = None
        done.update(failure)
    if compiled is not None and set_out(message, done):
        _run(compiled, message, names, done, owner)
    flush_all()
    if os.getpid() != owner:
        os._exit(done["exit"])
    done["alone"] = is_alone()
    done["cpu_ms"] = (time.process_time() - started) * 1000
    done["max_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    is_sent = send_result(channel, done)
    os._exit(EXIT_CHANNEL_LOST if not is_sent else EXIT_TOLD if done["alone"] else done["exit"])


def _enter(folder: str, name: str) -> Optional[Dict[str, Any]]:
    """Change to the working directory; return the error result if an earlier program has locked it."""
    try:
        os.chdir(folder)
    except OSError as error:
        return {"t": "done", "exit": 1, "error": describe_exception(error, name)}
    return None


def _run(
    compiled: Compiled,
    message: Dict[str, Any],
    names: Dict[str, Any],
    done: Dict[str, Any],
    owner: int,
) -> None:
    main_module = new_main(names)
    try:
        with spare:
            has_value, value = run_in(main_module, compiled)
        save_open_figures()
        if has_value and value is not None and os.getpid() == owner:
            done.update(describe_value(value, message["message_bytes"] // 4))
        value = None
    except SystemExit as stop:
        note_exit(done, stop)
        save_anyway()
    except BaseException as error:
        if os.getpid() != owner:  # a child that the program forked ends as a script would
            sys.stderr.write(describe_exception(error, message["name"])["traceback"])
        else:
            if issubclass(type(error), MemoryError):
                main_module.__dict__.clear()  # reporting the error needs memory too
            done["error"] = describe_exception(error, message["name"], [spec["alias"] for spec in message["tools"]])
            save_anyway()
        done["exit"] = 1
    if os.getpid() == owner:
        display.finish(done)
    wait_for_threads()  # which use the program's variables
    # Files that the program left open are flushed when their last reference goes, as at Python's own end.
    main_module.__dict__.clear()


def own_streams() -> None:
    """Open Python's standard streams anew: they may have been opened for other descriptors than this run's."""
    stdin = open(0, encoding="utf-8", errors="replace", closefd=False)
    for name in ("stdin", "__stdin__"):
        setattr(sys, name, stdin)
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = io.TextIOWrapper(
            io.BufferedWriter(io.FileIO(number, "w", closefd=False), 64 * 1024),
            encoding="utf-8",
            errors="backslashreplace",  # a lone surrogate is shown, not an error
            line_buffering=True,
        )
        setattr(sys, name, stream)
        setattr(sys, "__%s__" % name, stream)
