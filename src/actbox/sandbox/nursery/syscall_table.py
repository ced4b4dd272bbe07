"""The system calls that a guest may make, and why: the only table behind the seccomp filter.

A call that is not listed is refused with EPERM, which a program sees as an ordinary `PermissionError` and can survive.
A name that an architecture lacks (`open` on aarch64) is skipped there.
"""

from __future__ import annotations

import errno
import fcntl
import resource
import socket
import stat

from . import linux


class Condition:
    """A requirement on an argument, counted from 0, and the errno if it is not met.

    Conditions compare the lower 32 bits of an argument, and so does the kernel: each argument named in this table is an
    `int` (or shorter) to it, or, in `clone` and `mmap`, a word whose upper half it drops or ignores. Only `NullWith` is
    about a pointer, and compares both halves.
    """

    __slots__ = ("argument", "refusal")

    def __init__(self, argument: int, refusal: int) -> None:
        self.argument = argument
        self.refusal = refusal


class Only(Condition):
    """The argument is one of `values`, comparing only the bits of `mask`."""

    __slots__ = ("mask", "values")

    def __init__(self, argument: int, values: tuple[int, ...], refusal: int, mask: int = 0xFFFFFFFF) -> None:
        super().__init__(argument, refusal)
        self.values = values
        self.mask = mask


class Never(Condition):
    """The argument is not `value`, comparing only the bits of `mask`."""

    __slots__ = ("mask", "value")

    def __init__(self, argument: int, value: int, refusal: int, mask: int = 0xFFFFFFFF) -> None:
        super().__init__(argument, refusal)
        self.value = value
        self.mask = mask


class Without(Condition):
    """The argument has none of `bits`."""

    __slots__ = ("bits",)

    def __init__(self, argument: int, bits: int, refusal: int) -> None:
        super().__init__(argument, refusal)
        self.bits = bits


class NeverWith(Condition):
    """The argument is none of `values` if another argument, `other`, equals `when`."""

    __slots__ = ("other", "values", "when")

    def __init__(self, argument: int, values: tuple[int, ...], refusal: int, other: int, when: int) -> None:
        super().__init__(argument, refusal)
        self.values = values
        self.other = other
        self.when = when


class NullWith(Condition):
    """The argument is a null pointer if another argument, `other`, equals `when`."""

    __slots__ = ("other", "when")

    def __init__(self, argument: int, refusal: int, other: int, when: int) -> None:
        super().__init__(argument, refusal)
        self.other = other
        self.when = when


# Each entry: the reason, and the names.
ALLOWED: tuple[tuple[str, str], ...] = (
    (
        "Open, read and write files: the root that a guest sees decides which.",
        "close read write readv writev pread64 pwrite64 preadv "
        "pwritev preadv2 pwritev2 lseek truncate ftruncate fallocate fadvise64 readahead copy_file_range "
        "fsync fdatasync sync_file_range flock dup dup2 dup3 pipe pipe2",
    ),
    (
        "Look at files and change what their owner may change.",
        "stat fstat lstat newfstatat statx statfs fstatfs access faccessat faccessat2 getdents getdents64 "
        "readlink readlinkat umask chown fchown lchown fchownat utime utimes "
        "futimesat utimensat getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr "
        "removexattr lremovexattr fremovexattr",
    ),
    (
        "Make, move and remove files and directories, and move among them.",
        "mkdir mkdirat rmdir link linkat symlink symlinkat unlink unlinkat rename renameat renameat2 "
        "getcwd chdir fchdir",
    ),
    (
        "Wait for descriptors, timers and changes of files: event loops are made of these.",
        "poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait "
        "epoll_pwait2 eventfd eventfd2 signalfd signalfd4 timerfd_create timerfd_settime timerfd_gettime "
        "inotify_init inotify_init1 inotify_add_watch inotify_rm_watch",
    ),
    (
        "Manage the process's own memory, executable pages included: interpreters compile while they run.",
        "munmap mremap mprotect madvise mincore msync brk mlock mlock2 munlock mlockall munlockall "
        "membarrier pkey_alloc pkey_free pkey_mprotect get_mempolicy",
    ),
    (
        "Start and wait for processes: the pid namespace confines them, a limit counts them.",
        "fork vfork execve execveat exit exit_group wait4 waitid "
        "pidfd_send_signal getpid getppid gettid getpgrp getpgid setpgid "
        "getsid setsid",
    ),
    (
        "What the C library and threads are built on.",
        "arch_prctl set_tid_address set_robust_list get_robust_list rseq futex futex_waitv restart_syscall "
        "getrandom rt_sigaction rt_sigprocmask rt_sigpending rt_sigreturn rt_sigsuspend rt_sigtimedwait "
        "sigaltstack pause",
    ),
    (
        "Read the time, sleep and set timers.",
        "time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep alarm getitimer setitimer "
        "timer_create timer_settime timer_gettime timer_getoverrun timer_delete",
    ),
    (
        "Ask how processes are scheduled.",
        "sched_yield sched_getaffinity sched_getparam sched_getscheduler sched_getattr sched_get_priority_max "
        "sched_get_priority_min sched_rr_get_interval getpriority ioprio_get getcpu",
    ),
    (
        "Ask about the system, the use of resources and the limits.",
        "uname sysinfo times getrusage getrlimit",
    ),
    (
        "Ask for and set ids: without capabilities they change between the ids that the process has.",
        "getuid geteuid getgid getegid getresuid getresgid getgroups capget setuid setgid setreuid "
        "setregid setresuid setresgid setfsuid setfsgid setgroups",
    ),
    (
        "Use sockets: the network namespace decides what they reach.",
        "connect accept accept4 bind listen getsockname getpeername shutdown sendto "
        "recvfrom sendmsg recvmsg sendmmsg recvmmsg",
    ),
    (
        "Enter the Landlock domain whose rules pid 1 has made: so the guest itself ends its birth.",
        "landlock_restrict_self",
    ),
)

# A session that can be forked keeps CAP_SYS_CHROOT, to enter a branch's own tree.
CHROOT = ("Enter a branch's tree; out of it there is only the sandbox's own root.", "chroot")

_IOCTLS = (
    *(0x5421, 0x5450, 0x5451, 0x5452, 0x541B, 0x5460),  # FIONBIO FIONCLEX FIOCLEX FIOASYNC FIONREAD FIOQSIZE
    *(0x5401, 0x5402, 0x5403, 0x5404),  # TCGETS TCSETS TCSETSW TCSETSF
    *(0x802C542A, 0x402C542B, 0x402C542C, 0x402C542D),  # TCGETS2 TCSETS2 TCSETSW2 TCSETSF2
    *(0x5413, 0x540F, 0x5410, 0x5429, 0x5411),  # TIOCGWINSZ TIOCGPGRP TIOCSPGRP TIOCGSID TIOCOUTQ
    *(0x40049409, 0x4020940D),  # FICLONE FICLONERANGE
    *(0x8910, 0x8912, 0x8913, 0x8915, 0x8917),  # SIOCGIFNAME SIOCGIFCONF …FLAGS …ADDR …DSTADDR
    *(0x8919, 0x891B, 0x891D, 0x8921, 0x8927, 0x8933),  # SIOCGIFBRDADDR …NETMASK …METRIC …MTU …HWADDR …INDEX
    0x8942,  # SIOCGIFTXQLEN
)
# Not in the list: F_SETLEASE, F_NOTIFY and F_SETDELEG, with which a reader makes writers of the same file wait, also on
# the host, and F_GETLEASE and F_GETDELEG, which only query these; F_OFD_SETLK and the like, because such locks stay
# with a file in transit between processes, which no count sees, and take memory charged to nobody; F_SETPIPE_SZ,
# because the pipes of all sandboxes share one user's allowance; F_ADD_SEALS and F_GET_SEALS, because `memfd_create` is
# refused and nothing else can be sealed; F_SETOWN_EX and F_GETOWN_EX, which have the owner in memory, where a filter
# cannot look.
_FCNTLS = (
    *(fcntl.F_DUPFD, fcntl.F_DUPFD_CLOEXEC, fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL, fcntl.F_SETFL),
    *(fcntl.F_GETLK, fcntl.F_SETLK, fcntl.F_SETLKW),
    *(fcntl.F_GETOWN, fcntl.F_SETOWN, fcntl.F_GETSIG, fcntl.F_SETSIG),
    *(1027, 1032),  # F_DUPFD_QUERY F_GETPIPE_SZ
)
_DONE = 0  # errno 0: the call seems to succeed
_PRCTLS = (
    *(linux.PR_SET_NAME, 16),  # PR_GET_NAME
    *(linux.PR_SET_PDEATHSIG, linux.PR_GET_PDEATHSIG, linux.PR_GET_DUMPABLE),
    *(linux.PR_CAPBSET_READ, linux.PR_GET_SECUREBITS, 7),  # PR_GET_KEEPCAPS
    *(linux.PR_SET_NO_NEW_PRIVS, linux.PR_GET_NO_NEW_PRIVS, linux.PR_SET_SECCOMP, linux.PR_GET_SECCOMP),
    *(29, 30, 41, 42),  # PR_SET_TIMERSLACK PR_GET_TIMERSLACK PR_SET_THP_DISABLE PR_GET_THP_DISABLE
    *(linux.PR_GET_CHILD_SUBREAPER, 40, 25, 52),  # PR_GET_TID_ADDRESS PR_GET_TSC PR_GET_SPECULATION_CTRL
    *(50, 51, 54, 55, 56, 61, 63, 64),  # aarch64: vector lengths (SVE, SME), pointer keys, tagged addresses
    *(65, 66),  # PR_SET_MDWE PR_GET_MDWE
    *(0x53564D41, 0x41555856),  # PR_SET_VMA PR_GET_AUXV
)
_SOCKET_TYPE_MASK = 0xF
_ATTACHING = (26, 50, 51, 52)  # SO_ATTACH_FILTER SO_ATTACH_BPF SO_ATTACH_REUSEPORT_CBPF SO_ATTACH_REUSEPORT_EBPF
_PASS_PIDFD, _PEER_PIDFD = 76, 77  # SO_PASSPIDFD SO_PEERPIDFD
# TCP_ZEROCOPY_RECEIVE: the kernel's pages become part of the process, where they are charged to nobody any more. No
# other level has an option of this number that programs would ask for.
_ZEROCOPY_RECEIVE = 35
# SO_LINGER: whoever closes such a socket last waits as long as the program chose. That may be the host, to which the
# program sent it by the channel, or the kernel's one thread that closes what was in transit, for all processes.
_LINGER = 13
# SO_TIMESTAMP, SO_TIMESTAMPNS and SO_TIMESTAMPING, each with its newer number, UDP_ENCAP and UDP_GRO: with the first
# such socket, and with the end of the last one, the kernel rewrites its own code while it interrupts all processors.
# Sockets of UDP take their options at the level of UDP-Lite as well. No other level has options of these numbers.
_TIMESTAMPS, _UDP_ENCAP, _UDP_GRO = (29, 35, 37, 63, 64, 65), 100, 104
# Groups (IP_ADD_MEMBERSHIP, IP_ADD_SOURCE_MEMBERSHIP, MCAST_JOIN_GROUP, MCAST_JOIN_SOURCE_GROUP and IPV6_JOIN_GROUP):
# their memory is charged to nobody, the kernel searches all of them with a lock held that is the whole machine's, and
# reports them when their socket has gone. Of IPV6_FLOWLABEL_MGR's labels the machine has 4,096.
_JOINS, _JOINS_6, _FLOW_LABELS = (35, 39, 42, 46), (20, 42, 46), 32
_MAP_SHARED_ANONYMOUS, _MAP_TYPE_AND_ANONYMOUS, _MAP_HUGETLB = 0x21, 0x2F, 0x40000
# As where the machine has none: programs then take ordinary pages. No control group of memory counts these.
_NO_HUGE_PAGES = Without(3, _MAP_HUGETLB, errno.ENOMEM)
_FILTER_FLAG_NEW_LISTENER = 0x8
_WATCHER = 1
_OF_WATCHER = (_WATCHER, 0xFFFFFFFF)  # the process; its group, as -1
_PRIO_PROCESS, _PRIO_PGRP = 0, 1
_IOPRIO_WHO_PROCESS, _IOPRIO_WHO_PGRP = 1, 2
# A file with one of these bits in a directory of the host would lend its owner's rights to anyone who runs it.
_SET_ID = stat.S_ISUID | stat.S_ISGID
_FILES_WITHOUT_DEVICE = (0, stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK)

# Each entry: the reason, the names, and conditions, all of which must hold; the first that fails sets the errno.
CONDITIONAL: tuple[tuple[str, str, tuple[Condition, ...]], ...] = (
    (
        "Map files, and memory of one's own; anonymous memory that is shared is refused where nobody would count it, "
        "and so are the huge pages that the machine's administrator has reserved.",
        "mmap",
        (
            _NO_HUGE_PAGES,
            Never(3, _MAP_SHARED_ANONYMOUS, errno.EPERM, _MAP_TYPE_AND_ANONYMOUS),
        ),
    ),
    (
        "Threads and processes, but no namespaces: in one, a guest would be root over much of the kernel. A process's "
        "threads share one table of descriptors, so that pid 1, which counts what these hold, sees all of them.",
        "clone",
        (
            Without(0, linux.CLONE_NEW_ANY & ~linux.CLONE_NEWTIME, errno.EPERM),  # here 0x80 is a signal's bit
            Never(0, linux.CLONE_THREAD, errno.EPERM, linux.CLONE_THREAD | linux.CLONE_FILES),
        ),
    ),
    (
        "Close descriptors, but give no thread a table of its own; a kernel that lacks the flag answers the same.",
        "close_range",
        (Without(2, linux.CLOSE_RANGE_UNSHARE, errno.EINVAL),),
    ),
    (
        "Local and internet sockets; no packets, no kernel interfaces, no rare protocols, no virtual machine's host.",
        "socket",
        (
            Only(0, (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6), errno.EAFNOSUPPORT),
            Only(1, (socket.SOCK_STREAM, socket.SOCK_DGRAM), errno.EPERM, _SOCKET_TYPE_MASK),
            Only(2, (0, socket.IPPROTO_TCP, socket.IPPROTO_UDP), errno.EPROTONOSUPPORT),
        ),
    ),
    (
        "Pairs of local sockets: the kernel can make no others, but would try.",
        "socketpair",
        (
            Only(0, (socket.AF_UNIX,), errno.EAFNOSUPPORT),
            Only(
                1,
                (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET),
                errno.EPERM,
                _SOCKET_TYPE_MASK,
            ),
        ),
    ),
    (
        "Options of sockets, but no programs for the kernel to run, since it has little room for those of all "
        "sandboxes, no descriptors of the processes that send, no close that waits, which may be others' to do, and "
        "nothing that interrupts all processors. On its loopback a program joins no group, as without a network.",
        "setsockopt",
        (
            Never(2, _UDP_ENCAP, errno.EPERM),
            Never(2, _UDP_GRO, errno.EPERM),
            NeverWith(
                2, (_LINGER, *_ATTACHING, _PASS_PIDFD, *_TIMESTAMPS), errno.EPERM, other=1, when=socket.SOL_SOCKET
            ),
            NeverWith(2, _JOINS, errno.ENODEV, other=1, when=socket.IPPROTO_IP),
            NeverWith(2, (*_JOINS_6, _FLOW_LABELS), errno.ENODEV, other=1, when=socket.IPPROTO_IPV6),
        ),
    ),
    (
        "Ask for them, but for no descriptor of the process at the other end: of the channel's, that is pid 1; and for "
        "no pages of what was received, which no control group would count any more.",
        "getsockopt",
        (
            Never(2, _ZEROCOPY_RECEIVE, errno.ENOPROTOOPT),
            NeverWith(1, (socket.SOL_SOCKET,), errno.EPERM, other=2, when=_PEER_PIDFD),
        ),
    ),
    (
        "Requests that only ask or concern one's own descriptor; never TIOCSTI or TIOCLINUX, which type for others.",
        "ioctl",
        (Only(1, _IOCTLS, errno.ENOTTY),),
    ),
    (
        "Copy descriptors, set their flags, lock files for a process; no locks of an open file, which pid 1 could not "
        "count, no leases, which hold up the host's writers, no larger pipes. Signals of a descriptor (F_SETOWN) go "
        "neither to pid 1 nor to its process group, in which each process that it makes is born.",
        "fcntl",
        (Only(1, _FCNTLS, errno.EPERM), NeverWith(2, _OF_WATCHER, errno.EPERM, other=1, when=fcntl.F_SETOWN)),
    ),
    (
        "Name the thread, tune its memory and timers, give up rights; not PR_SET_MM, PR_SET_PTRACER, PR_CAP_AMBIENT. "
        "To hide from pid 1, which counts what processes have, seems to work and does nothing (PR_SET_DUMPABLE).",
        "prctl",
        (Never(0, linux.PR_SET_DUMPABLE, _DONE), Only(0, _PRCTLS, errno.EPERM)),
    ),
    (
        "Ask for the personality or set the plain one; others turn off the randomising of addresses.",
        "personality",
        (Only(0, (0, 0xFFFFFFFF), errno.EPERM),),
    ),
    (
        "Open files and change their modes: the root that a guest sees decides which; no set-user-id or set-group-id.",
        "creat chmod fchmod",
        (Without(1, _SET_ID, errno.EPERM),),
    ),
    ("The same.", "open fchmodat", (Without(2, _SET_ID, errno.EPERM),)),
    ("The same.", "openat", (Without(3, _SET_ID, errno.EPERM),)),
    (
        "Named pipes, sockets and plain files; no devices, no set-user-id or set-group-id.",
        "mknod",
        (Without(1, _SET_ID, errno.EPERM), Only(1, _FILES_WITHOUT_DEVICE, errno.EPERM, 0xF000)),
    ),
    (
        "The same.",
        "mknodat",
        (Without(2, _SET_ID, errno.EPERM), Only(2, _FILES_WITHOUT_DEVICE, errno.EPERM, 0xF000)),
    ),
    (
        "Lower one's own limits; that of core dumps stays 1, where the kernel starts no handler of the host's, though "
        "the call seems to have worked.",
        "setrlimit",
        (Never(0, resource.RLIMIT_CORE, _DONE),),
    ),
    (
        "The same, of the guest's processes; not of pid 1, which watches them under the same user.",
        "prlimit64",
        (Never(0, _WATCHER, errno.EPERM), NullWith(2, _DONE, other=1, when=resource.RLIMIT_CORE)),
    ),
    (
        "Set the scheduling of the guest's processes; not of pid 1, which watches them under the same user.",
        "sched_setaffinity sched_setparam sched_setscheduler sched_setattr",
        (Never(0, _WATCHER, errno.EPERM),),
    ),
    (
        "The same: one process or process group, not all of the user's.",
        "setpriority",
        (Only(0, (_PRIO_PROCESS, _PRIO_PGRP), errno.EPERM), Never(1, _WATCHER, errno.EPERM)),
    ),
    (
        "The same.",
        "ioprio_set",
        (Only(0, (_IOPRIO_WHO_PROCESS, _IOPRIO_WHO_PGRP), errno.EPERM), Never(1, _WATCHER, errno.EPERM)),
    ),
    (
        "Send signals, within the pid namespace; pid 1 would ignore them, and a program is better told.",
        "kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_open",
        (Never(0, _WATCHER, errno.EPERM),),
    ),
    (
        "A filter of one's own makes this one stricter; a listener would decide on others' calls.",
        "seccomp",
        (Without(1, _FILTER_FLAG_NEW_LISTENER, errno.EPERM),),
    ),
)

# The same, in the place of those, for a guest whose memory a control group counts.
CONDITIONAL_COUNTED: tuple[tuple[str, str, tuple[Condition, ...]], ...] = (
    ("Where a control group counts memory, also share anonymous memory.", "mmap", (_NO_HUGE_PAGES,)),
)

# Each entry: the reason, the names, and the errno.
REFUSED: tuple[tuple[str, str, int], ...] = (
    (
        "Its flags lie in memory, where a filter cannot look; the C library then takes `clone`.",
        "clone3",
        errno.ENOSYS,
    ),
    ("The same of a mode; programs then take `openat`.", "openat2", errno.ENOSYS),
    (
        "Namespaces, mounts and roots: the sandbox's own walls.",
        "unshare setns mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount fspick "
        "mount_setattr",
        errno.EPERM,
    ),
    (
        "Other processes' memory, descriptors and state.",
        "ptrace process_vm_readv process_vm_writev process_madvise process_mrelease pidfd_getfd kcmp "
        "migrate_pages move_pages",
        errno.EPERM,
    ),
    (
        "Large kernel interfaces with a history of holes, which programs can do without.",
        "bpf perf_event_open userfaultfd io_uring_setup io_uring_enter io_uring_register io_setup "
        "io_submit io_getevents io_pgetevents io_cancel io_destroy vmsplice remap_file_pages modify_ldt "
        "memfd_secret uselib msgget msgsnd msgrcv msgctl mq_open mq_unlink mq_timedsend mq_timedreceive "
        "mq_notify mq_getsetattr",
        errno.EPERM,
    ),
    (
        "Memory that belongs to no process and lies in no directory: where there is no cgroup, nothing would count it.",
        "memfd_create shmget shmat shmdt shmctl semget semop semtimedop semctl landlock_create_ruleset "
        "landlock_add_rule",
        errno.ENOSYS,
    ),
    (
        "Nobody would see all pages that are underway: the kernel charges those of a connection, and of a device, to "
        "no control group. Programs then read and write.",
        "sendfile splice tee",
        errno.EINVAL,
    ),
    (
        "Lists of access to files in memory are the kernel's own, which no control group counts either.",
        "setxattr lsetxattr fsetxattr",
        errno.ENOTSUP,
    ),
    (
        "Keys, file handles and watches are not confined by namespaces or by the root.",
        "add_key request_key keyctl name_to_handle_at open_by_handle_at fanotify_init fanotify_mark lookup_dcookie",
        errno.EPERM,
    ),
    (
        "The machine's administration: clocks, names, quotas, accounting, logs, and everybody's disks.",
        "settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname quotactl quotactl_fd "
        "acct syslog vhangup nfsservctl sync syncfs mbind set_mempolicy set_mempolicy_home_node capset "
        "sysfs ustat",
        errno.EPERM,
    ),
)

# Each entry: the reason, and the names. The whole process is killed with SIGSYS.
KILLED: tuple[tuple[str, str], ...] = (
    (
        "Change the running kernel, its devices' ports or its swap: no program does that in good faith.",
        "kexec_load kexec_file_load init_module finit_module delete_module iopl ioperm reboot swapon swapoff",
    ),
)
