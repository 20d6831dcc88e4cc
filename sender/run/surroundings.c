/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/run/surroundings.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "proto/base/file.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "sender/options/filter.h"

/* The kernel's first PID namespace has this number (include/linux/proc_ns.h, PROC_PID_INIT_INO). */
#define FIRST_PID_NAMESPACE "pid:[4026531836]"

static struct bytes read_link(const char *path, char *to, size_t room)
{
    ssize_t n = readlink(path, to, room);
    return bytes_of(to, n > 0 ? (size_t)n : 0);
}

/* Samples have the numbers that processes have in the first namespace: /proc must have the same. It may be
 * mounted from there into a container that is in another one. */
static bool proc_is_the_kernel_s(void)
{
    char text[64], own[16];
    struct bytes namespace = read_link("/proc/self/ns/pid", text, sizeof text);
    if (namespace.n == 0 || bytes_is(namespace, FIRST_PID_NAMESPACE))
        return true; /* or nobody can say */
    snprintf(own, sizeof own, "%d", getpid());
    struct bytes self = read_link("/proc/self", text, sizeof text);
    return self.n && !bytes_is(self, own);
}

uint64_t surroundings_memory(const char *root, struct bytes cgroup)
{
    char path[PATH_MAX], text[32];
    uint64_t least = UINT64_MAX;
    const uint8_t *at = memmem(cgroup.p, cgroup.n, "0::/", 4);
    size_t n = at ? (size_t)(cgroup.p + cgroup.n - at) - 3 : 0;
    const uint8_t *end = n ? memchr(at + 3, '\n', n) : NULL;
    n = end ? (size_t)(end - at) - 3 : n;
    if (n == 0 || n + strlen(root) + sizeof "/memory.max" > sizeof path)
        return least;
    snprintf(path, sizeof path, "%s%.*s", root, (int)n, (const char *)at + 3);
    for (size_t top = strlen(root); strlen(path) > top; *strrchr(path, '/') = 0) {
        char *name = path + strlen(path);
        memcpy(name, "/memory.max", sizeof "/memory.max");
        file_text(path, text, sizeof text);
        *name = 0;
        char *behind;
        uint64_t value = strtoull(text, &behind, 10);
        if (behind != text)
            least = min_of(least, value);
    }
    return least;
}

static void check_memory(void)
{
    char text[4096];
    const char *root = filter_cgroup_root();
    const size_t n = file_text("/proc/self/cgroup", text, sizeof text);
    uint64_t limit = root ? surroundings_memory(root, bytes_of(text, n)) : UINT64_MAX;
    if (limit < SURROUNDINGS_MEMORY_MIN)
        log_warn(
            "the memory limit of our cgroup is %llu MiB: profsend may be killed for want of memory, or lose "
            "stacks and names; give it %llu MiB at least",
            (unsigned long long)(limit >> 20), SURROUNDINGS_MEMORY_MIN >> 20);
}

/* 0, or -EACCES: somebody else may say, or put in its place something that says, what threads work for. */
static int check_owner(const char *path, struct error *e)
{
    struct stat st;
    if (lstat(path, &st) < 0)
        return 0; /* it is made, or opening it says why not */
    if (st.st_uid != 0 && st.st_uid != geteuid())
        return error_set(
            e, -EACCES,
            "--trace-map: %s belongs to uid %u, who may put any trace in it; it must belong to root "
            "or to who runs profsend",
            path, st.st_uid);
    if (S_ISDIR(st.st_mode) && st.st_mode & (S_IWGRP | S_IWOTH) && !(st.st_mode & S_ISVTX))
        return error_set(e, -EACCES, "--trace-map: others may put another map into %s; chmod go-w it", path);
    return 0;
}

/* The kernel's answer, EINVAL, would be taken for that of a kernel that is too old. A folder that is not
 * there is as the one that it would be made in; `folder` is cut down to that. */
static int check_is_bpf(char *folder, const char *path, struct error *e)
{
    struct statfs fs;
    for (; statfs(folder, &fs) < 0; folder = dirname(folder))
        if (errno != ENOENT || !folder[1])
            return 0; /* opening it says why not */
    return fs.f_type == BPF_FS_MAGIC
               ? 0
               : error_set(e, -EINVAL,
                           "--trace-map: %s is not on a BPF file system; there is one at "
                           "/sys/fs/bpf (mount -t bpf bpf /sys/fs/bpf)",
                           path);
}

static int check_trace_map(const char *path, struct error *e)
{
    autofree char *folder = strdup(path);
    if (!folder)
        return error_set(e, -ENOMEM, "out of memory");
    char *at = dirname(folder);
    int r = check_owner(at, e);
    r = r < 0 ? r : check_owner(path, e);
    return r < 0 ? r : check_is_bpf(at, path, e);
}

static void say_vain(const char *option, const char *why)
{
    log_warn("%s has no effect %s", option, why);
}

int surroundings_check(const struct options *o, struct error *e)
{
    if (!proc_is_the_kernel_s())
        return error_set(
            e, -EINVAL,
            "this is a PID namespace of its own: samples would find no process in /proc, and have "
            "neither stacks nor names; run profsend in the host's (docker run --pid=host, "
            "Kubernetes: hostPID: true)");
    int r = o->trace_map ? check_trace_map(o->trace_map, e) : 0;
    if (r < 0)
        return r;
    check_memory();
    options_vain(o, say_vain);
    if (o->pid && kill((pid_t)o->pid, 0) < 0 && errno == ESRCH)
        log_warn("--pid %u: there is no such process", o->pid);
    return 0;
}

void surroundings_say_idle(struct surroundings *s, const struct options *o, uint64_t taken, uint64_t passed)
{
    bool has_rules = o->pid || o->n_rules;
    if (s->said_idle || taken || !has_rules || passed < SURROUNDINGS_IDLE_NS)
        return;
    s->said_idle = true;
    log_warn("no sample yet: nothing has run that --pid, --include and --exclude let through");
}
