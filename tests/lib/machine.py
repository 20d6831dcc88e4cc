"""What tests share with all others on the machine, those of another tree, too."""
import contextlib
import fcntl


@contextlib.contextmanager
def libc():
    """Held by who has probes in libc's functions, and by who runs programs in valgrind, which takes a probe's breakpoint for the code."""
    with open("/run/lock/pg-tests-libc", "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
