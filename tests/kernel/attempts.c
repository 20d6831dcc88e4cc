/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tries, one after the other, what the sandboxes of scripts/deploy's units are to refuse, and what they are
 * to leave. A line each: what was tried, and the name of the error it met (OK: none). Each succeeds, or fails
 * in a way of its own, for root outside of a sandbox. Nothing of it lasts but a System V shared memory
 * segment, by whose absence RemoveIPC= is told.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE    4096
#define SCRATCH "/tmp/attempt"

static void tell(const char *what, long result)
{
    printf("%s %s\n", what, result >= 0 ? "OK" : strerrorname_np(errno));
    fflush(stdout);
}

static void open_it(const char *what, const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC | O_NOCTTY);
    tell(what, fd);
    if (fd >= 0)
        close(fd);
}

static void make_folder(const char *what, const char *path)
{
    tell(what, mkdir(path, 0700));
    rmdir(path);
}

static void open_socket(const char *what, int family, int type)
{
    int fd = socket(family, type | SOCK_CLOEXEC, 0);
    tell(what, fd);
    if (fd >= 0)
        close(fd);
}

static void files(void)
{
    make_folder("write-usr", "/usr/attempt");
    make_folder("write-etc", "/etc/attempt");
    make_folder("write-var", "/var/attempt");
    make_folder("write-root", "/attempt");
    make_folder("write-home", "/home/attempt");
    make_folder("write-tmp", "/tmp/attempt-folder");
    make_folder("write-cgroup", "/sys/fs/cgroup/attempt");
    const char *state = getenv("STATE_DIRECTORY"), *run = getenv("RUNTIME_DIRECTORY");
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/attempt", state ? state : "/tmp");
    make_folder("write-state", path);
    snprintf(path, sizeof path, "%s/attempt", run ? run : "/tmp");
    make_folder("write-run", path);
    /* (by the times of a file: that its mount is read-only is looked at before whose it is) */
    tell("write-sysctl", utimensat(AT_FDCWD, "/proc/sys/kernel/domainname", NULL, 0));
    tell("write-sys", utimensat(AT_FDCWD, "/sys/kernel/mm/transparent_hugepage/enabled", NULL, 0));
    open_it("see-home", "/home/here", O_RDONLY);
    open_it("see-tmp", "/tmp/here", O_RDONLY);
    open_it("see-modules", "/usr/lib/modules/here", O_RDONLY);
    open_it("see-process", "/proc/1/stat", O_RDONLY);
    open_it("see-environment", "/proc/1/environ", O_RDONLY);
    open_it("see-kernel-log", "/dev/kmsg", O_RDONLY);
    open_it("see-disk", "/dev/vda", O_RDONLY);
    open_it("see-symbols", "/proc/kallsyms", O_RDONLY);
    open_it("see-null", "/dev/null", O_RDWR);
}

static void kernel(void)
{
    tell("load-module", syscall(SYS_init_module, "none", 4UL, ""));
    tell("read-kernel-log", syscall(SYS_syslog, 10 /* SYSLOG_ACTION_SIZE_BUFFER */, NULL, 0));
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    tell("set-clock", clock_settime(CLOCK_REALTIME, &now));
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    tell("set-host-name", sethostname(name, strlen(name)));
    tell("make-device", mknod(SCRATCH, S_IFCHR | 0600, makedev(1, 3)));
    unlink(SCRATCH);
    tell("unmount", umount2("/nowhere", 0));
    tell("root-elsewhere", chroot("/nowhere"));
    tell("raw-ports", syscall(SYS_iopl, 0));
    union bpf_attr map = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    tell("make-bpf-map", syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof map));
    struct perf_event_attr clock = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof clock, .config = PERF_COUNT_SW_CPU_CLOCK};
    tell("count-a-cpu", syscall(SYS_perf_event_open, &clock, -1, 0, -1, PERF_FLAG_FD_CLOEXEC));
    tell("share-memory", shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0600));
}

static void process(void)
{
    tell("see-keys", syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0));
    tell("change-personality", personality(ADDR_NO_RANDOMIZE));
    personality(0);
    void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tell("map-writable-code", page == MAP_FAILED ? -1 : 0);
    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tell("make-code", mprotect(page, PAGE, PROT_READ | PROT_EXEC));
    struct sched_param first = {.sched_priority = 1}, plain = {0};
    tell("run-real-time", sched_setscheduler(0, SCHED_FIFO, &first));
    sched_setscheduler(0, SCHED_OTHER, &plain);
    tell("be-nicer", setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0)));
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof cpus, &cpus);
    tell("choose-cpus", sched_setaffinity(0, sizeof cpus, &cpus));
    int fd = open(SCRATCH, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    tell("make-setuid", fchmod(fd, 04700));
    tell("change-owner", fchown(fd, getuid(), getgid()));
    close(fd);
    unlink(SCRATCH);
    tell("change-user", syscall(SYS_setresuid, -1, -1, -1));
    open_socket("socket-inet", AF_INET, SOCK_STREAM);
    open_socket("socket-inet6", AF_INET6, SOCK_STREAM);
    open_socket("socket-unix", AF_UNIX, SOCK_STREAM);
    open_socket("socket-netlink", AF_NETLINK, SOCK_RAW);
    open_socket("socket-packet", AF_PACKET, SOCK_RAW);
}

/* What would change or end this process is tried in a child; what ends it is told as a signal. */
static void in_child(const char *what, long (*attempt)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        tell(what, attempt());
        _exit(0);
    }
    int status = 0;
    if (child < 0)
        tell(what, -1);
    else if (waitpid(child, &status, 0) == child && WIFSIGNALED(status))
        printf("%s SIG%s\n", what, sigabbrev_np(WTERMSIG(status)));
}

static long be_traced(void)
{
    return ptrace(PTRACE_TRACEME, 0, NULL, NULL);
}

static long new_namespace(void)
{
    return unshare(CLONE_NEWUTS);
}

static long new_user_namespace(void)
{
    return unshare(CLONE_NEWUSER);
}

/* getpid of the 32-bit interface: 20 in arch/x86/entry/syscalls/syscall_32.tbl. */
static long foreign_call(void)
{
    long result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory", "r8", "r9", "r10", "r11");
    errno = result < 0 ? (int)-result : 0;
    return result < 0 ? -1 : 0;
}

int main(void)
{
    files();
    kernel();
    process();
    in_child("be-traced", be_traced);
    in_child("new-namespace", new_namespace);
    in_child("new-user-namespace", new_user_namespace);
    in_child("foreign-call", foreign_call);
    puts("end OK");
    return 0;
}
