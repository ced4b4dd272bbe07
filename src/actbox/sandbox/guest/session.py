"""A session in the guest: many programs, one after the other, in one live `__main__`.

The guest answers the host's `session` message once it is ready, then each `run` message with a `done` that has the
run's number. To be forked, the session gets a `fork`, with a channel, pipes and a file tree for the copy. It flushes
its files and forks; original and copy both answer, and pause. Once the files have been copied into the tree, each gets
a `release`, which has no answer, and goes on. A `soon` tells that a `run` follows, and has no answer either. When the
host closes the channel the process ends as a script does.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
import traceback

from . import display
from .channel import ChannelClosed, HostChannel
from .error_hints import describe_exception
from .event_loop import SessionLoop
from .figures import save_open_figures
from .finish import flush_all, flush_output, note_exit, save_anyway, send_result, wait_for_threads
from .fork import OpenFiles, fork_sibling, may_have_buffers, refuse_threads
from .interrupts import Interrupts
from .program import Compiled, FileNames, compile_program, new_main, run_in, set_out
from .randomness import reseed
from .session_packages import SessionPackages, with_pip_called
from .spare_descriptors import spare
from .spawned import note_tools
from .tools import bind_tools, bind_types
from .value import describe_value
from .wire import EXIT_CHANNEL_LOST

TYPE_CHECKING = False  # importing typing costs each child memory
if TYPE_CHECKING:
    from typing import Any, Dict, List, NoReturn, Optional

    from .finish import Reference


def serve_session(channel: HostChannel, packages: str = "") -> NoReturn:
    """Run the programs that the host sends, until it closes the channel, and end the process.

    `packages` is the directory with the `pip` of a session that may get packages while it lives.
    """
    # Now, and not when a program needs it: an interrupted import can leave a package broken for good.
    import asyncio  # noqa: F401

    session = Session(channel, packages)
    done: Optional[Dict[str, Any]] = {"t": "done", "exit": 0}
    while done is not None:
        channel.end_calls()
        if not send_result(channel, done):
            session.end(EXIT_CHANNEL_LOST)
        done = session.run_next()
    session.end(0)


class Session:
    """The programs of a session: their shared state, and how each is run and reported."""

    def __init__(self, channel: HostChannel, packages: str = "") -> None:
        self._channel = channel
        self._owner = os.getpid()
        self._main = new_main({})
        self._interrupts = channel.interrupts = Interrupts()
        self._loop = SessionLoop(self._interrupts)
        self._interrupts.elsewhere = self._loop.interrupt
        self._file_names = FileNames()
        self._bound: Dict[str, Any] = {}
        self._held = False
        self._is_copy = False
        self._unsettled: Optional[OpenFiles] = None
        """The files that a copy opens again once it is released."""
        self._files: List[Reference] = []
        self._packages = SessionPackages(channel, self._file_names, packages) if packages else None

    def run_next(self) -> Optional[Dict[str, Any]]:
        """Wait for a program and run it; return its result, or `None` when the host has closed the channel."""
        while True:
            try:
                message = self._channel.next_program(None if self._held else self._loop.open)
            except ChannelClosed:
                return None
            except (KeyboardInterrupt, SystemExit):  # raised by a task that went on between two programs
                if os.getpid() != self._owner:
                    self.end(0)
                traceback.print_exc()
                continue
            if message["t"] == "release":
                self._channel.end_calls()
                self._go_on()
                continue
            return self._run(message) if message["t"] == "run" else self._answer_fork(message)

    def end(self, code: int) -> NoReturn:
        """End the process as a script ends: tasks, threads and `atexit` first, then flush open files."""
        if os.getpid() == self._owner:
            self._loop.close()
        wait_for_threads()
        self._main.__dict__.clear()
        flush_all(self._files)
        os._exit(code)

    def _answer_fork(self, message: Dict[str, Any]) -> Dict[str, Any]:
        """Fork the session and pause; return the message of the original or, in the copy, of the copy."""
        descriptors = self._channel.take_descriptors()
        done: Dict[str, Any] = {"t": "done", "run": message["run"], "exit": 0}
        try:
            self._get_ready(descriptors)
            with self._channel.copying():
                copy = fork_sibling()
            self._held = True
            if not copy:
                self._become_copy(descriptors)
                return {**done, "run": 0, "value": os.getpid()}
            done["value"] = copy
        except Exception as error:
            done.update(exit=1, error={"kind": "RUNTIME", "type": type(error).__name__, "message": str(error)})
        for descriptor in descriptors:
            os.close(descriptor)
        return done

    def _get_ready(self, given: List[int]) -> None:
        """Flush the files, which are copied afterwards, except the descriptors `given` for the copy.

        Raises `CannotFork`.
        """
        refuse_threads()
        spare.release()
        self._loop.check_copyable()
        if self._is_copy:
            gc.collect()  # of its own objects alone: a copy of this copy would keep its garbage for ever
        if may_have_buffers((self._channel.descriptor, *self._loop.descriptors, *given)):
            self._files = flush_all(self._files)
            refuse_threads()  # flushing may run code of the program
        else:
            flush_output()

    def _become_copy(self, descriptors: List[int]) -> None:
        try:
            channel, stdout, stderr, root = descriptors
            self._unsettled = OpenFiles(root)
            self._channel.become_copy(channel)
            for descriptor, number in ((stdout, 1), (stderr, 2)):
                os.dup2(descriptor, number)
                os.close(descriptor)
            self._unsettled.move()
            self._loop.become_copy()
            self._interrupts.become_copy()
            self._owner = os.getpid()
            self._is_copy = True
            # The collector writes to each object that it visits, and so would copy the original's memory.
            gc.freeze()
            reseed()
        except BaseException:
            self._give_up()

    def _go_on(self) -> None:
        """Go on after a fork; a copy first opens its files again."""
        self._held = False
        files, self._unsettled = self._unsettled, None
        try:
            if files is not None:
                files.settle()
        except BaseException:
            self._give_up()

    def _give_up(self) -> NoReturn:
        """End half a copy, which must not talk to the host, least of all as the original."""
        traceback.print_exc()
        os._exit(EXIT_CHANNEL_LOST)

    def _run(self, message: Dict[str, Any]) -> Dict[str, Any]:
        started = time.process_time()
        done: Dict[str, Any] = {"t": "done", "run": message["run"], "exit": 0}
        name = self._file_names.unused(message["name"])
        sys.argv = [name]
        try:
            compiled: Optional[Compiled] = self._compile(message["code"], name)
        except SyntaxError as error:
            compiled = None
            done["error"] = describe_exception(error, name)
            done["exit"] = 1
        if compiled is not None:
            self._bind(message, compiled, name)
            if set_out(message, done):
                if self._packages is not None:
                    self._packages.see(message["packages"])
                self._execute(compiled, name, message, done)
        if os.getpid() != self._owner:  # a child that the program forked ends as a script would
            flush_output()
            self.end(done["exit"])
        display.finish(done)
        flush_output()
        done["cpu_ms"] = (time.process_time() - started) * 1000
        done["max_rss_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return done

    def _compile(self, source: str, name: str) -> Compiled:
        """Compile a program, in which lines such as `%pip install x` may stand if the session may get packages."""
        shown = ""
        while True:
            try:
                return compile_program(source, name, shown)
            except SyntaxError as error:
                changed = with_pip_called(source, error) if self._packages is not None else ""
                if not changed:
                    raise
                shown, source = shown or source, changed

    def _bind(self, message: Dict[str, Any], compiled: Compiled, program_name: str) -> None:
        """Bind a program's tools and inputs, and unbind tools of earlier programs that it was not given."""
        namespace = self._main.__dict__
        for name, function in self._bound.items():
            if namespace.get(name) is function:  # unless a program has rebound the name
                del namespace[name]
        self._bound = bind_tools(message["tools"], self._channel, compiled.awaits, program_name)
        namespace.update(self._bound)
        note_tools(message["tools"])
        namespace.update(message["inputs"])
        bind_types(message, namespace)
        sys.modules["__main__"] = self._main  # a program may have replaced it

    def _execute(self, compiled: Compiled, name: str, message: Dict[str, Any], done: Dict[str, Any]) -> None:
        try:
            try:
                with spare:
                    self._interrupts.allow(message["interrupts"])
                    has_value, value = run_in(self._main, compiled, self._loop.run)
                save_open_figures()
                if has_value and value is not None and os.getpid() == self._owner:
                    done.update(describe_value(value, self._channel.max_bytes // 4))
                value = None
            finally:
                self._interrupts.forbid()
        except SystemExit as stop:
            self._interrupts.forbid()
            note_exit(done, stop)
            save_anyway()
        except BaseException as error:
            self._interrupts.forbid()  # also if an interrupt came right before `forbid` above
            if os.getpid() != self._owner:
                sys.stderr.write(describe_exception(error, name)["traceback"])
            else:
                done["error"] = describe_exception(error, name, [spec["alias"] for spec in message["tools"]])
                save_anyway()
            done["exit"] = 1
