#include "sender/procs/procs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "sender/procs/facts.h"

#define SLOTS 1024u

/* As much of environ as is searched: the usual limit of a whole argument list (ARG_MAX). */
#define ENVIRON_MAX (128u * 1024)
#define TEXT_MAX    8192u /* of status, stat and cgroup */

struct procs {
    char *root;
    struct process *slot[SLOTS];
    struct process *retired; /* replaced by an execve; still pointed at until the sweep */
    uint32_t n;
    uint64_t serial;
    uint8_t
        *environ; /* room for ENVIRON_MAX of it: fresh memory for each process costs more than the reading */
    uint64_t tick_ns;    /* of /proc/PID/stat */
    int64_t boot_offset; /* of our time namespace, ns (time_namespaces(7)): /proc/PID/stat has it added */
};

/* Opens root/PID/name. */
static int open_in(const struct procs *p, uint32_t pid, const char *name, int flags)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/%u/%s", p->root, pid, name) >= sizeof path)
        return -ENAMETOOLONG;
    int fd = open(path, flags | O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

/* The beginning of a file under root/PID; n bytes at most. */
static struct bytes read_in(const struct procs *p, uint32_t pid, const char *name, uint8_t *to, size_t room)
{
    autoclose int fd = open_in(p, pid, name, 0);
    size_t n = 0;
    for (ssize_t got; fd >= 0 && n < room && (got = read(fd, to + n, room - n)) > 0;)
        n += (size_t)got;
    return bytes_of(to, n);
}

static int64_t boot_offset(const char *root)
{
    char path[PATH_MAX], text[256] = "";
    snprintf(path, sizeof path, "%s/self/timens_offsets", root);
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
        return 0;
    const char *line = strstr(text, "boottime");
    long long seconds, nanoseconds;
    if (!line || sscanf(line, "boottime %lld %lld", &seconds, &nanoseconds) != 2 ||
        llabs(seconds) > INT32_MAX)
        return 0;
    return seconds * (int64_t)NSEC_PER_SEC + nanoseconds;
}

struct procs *procs_new(const char *root)
{
    struct procs *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->root = strdup(root);
    p->environ = malloc(ENVIRON_MAX);
    if (!p->root || !p->environ)
        return procs_free(p);
    long ticks = sysconf(_SC_CLK_TCK);
    p->tick_ns = NSEC_PER_SEC / (uint64_t)(ticks > 0 ? ticks : 100);
    p->boot_offset = boot_offset(root);
    return p;
}

static void identity_free(struct identity *id)
{
    if (id)
        identity_release(id);
    free(id);
}

static void process_free(struct process *process)
{
    maps_release(&process->maps);
    identity_free(process->identity);
    arena_release(&process->text);
    free(process);
}

static void free_list(struct process *list)
{
    while (list) {
        struct process *next = list->next;
        process_free(list);
        list = next;
    }
}

struct procs *procs_free(struct procs *p)
{
    if (!p)
        return NULL;
    for (uint32_t i = 0; i < SLOTS; i++)
        free_list(p->slot[i]);
    free_list(p->retired);
    free(p->root);
    free(p->environ);
    free(p);
    return NULL;
}

static struct process **slot_of(struct procs *p, uint32_t pid)
{
    return &p->slot[hash_mix(pid, 0) % SLOTS];
}

/* Whether it is the process that began then. One that was learned from /proc/PID/stat knows its start by the
 * tick only: the first to ask tells it. */
static bool is_it(const struct procs *p, struct process *process, uint32_t pid, uint64_t start)
{
    if (process->pid != pid)
        return false;
    if (process->is_rounded && (start + (uint64_t)p->boot_offset) / p->tick_ns ==
                                   (process->start + (uint64_t)p->boot_offset) / p->tick_ns) {
        process->start = start;
        process->is_rounded = false;
    }
    return process->start == start;
}

static struct process *find(struct procs *p, uint32_t pid, uint64_t start)
{
    struct process *process = *slot_of(p, pid);
    while (process && !is_it(p, process, pid, start))
        process = process->next;
    return process;
}

/* `path` as execve was told it, or "". */
static struct process *add(struct procs *p, uint32_t pid, uint64_t start, const char *path, uint64_t now)
{
    if (p->n >= PROCS_MAX)
        return NULL;
    size_t n = strlen(path);
    struct process *process = calloc(1, sizeof *process + n + 1), **slot = slot_of(p, pid);
    if (!process)
        return NULL;
    memcpy(process->told, path, n);
    process->path = bytes_of(process->told, n);
    process->pid = process->namespace_pid = pid;
    process->start = start;
    process->parent = process->user = UINT32_MAX;
    process->serial = ++p->serial;
    process->used = now;
    process->next = *slot;
    *slot = process;
    p->n++;
    return process;
}

/* Copies into the process's text; "" when memory is out, which leaves an attribute out. */
static struct bytes keep(struct process *process, struct bytes b)
{
    struct bytes copy = arena_copy(&process->text, b);
    return copy.p ? copy : bytes_of("", 0);
}

/* Whether root/PID is the same process, and not a later one with its number: a tick is rounded, so is ours.
 */
static bool is_same(const struct procs *p, const struct process *process)
{
    uint8_t text[TEXT_MAX];
    uint64_t ticks;
    if (facts_start_ticks(read_in(p, process->pid, "stat", text, sizeof text), &ticks) < 0)
        return false;
    return ticks == (process->start + (uint64_t)p->boot_offset) / p->tick_ns;
}

/* The path in a link under /proc without what the kernel adds for a file that is gone. */
static struct bytes without_deleted(struct bytes path)
{
    static const char deleted[] = " (deleted)";
    size_t n = sizeof deleted - 1;
    if (path.n > n && memcmp(path.p + path.n - n, deleted, n) == 0)
        path.n -= n;
    return path;
}

static void read_exe(const struct procs *p, struct process *process)
{
    char link[PATH_MAX], path[PATH_MAX];
    snprintf(link, sizeof link, "%s/%u/exe", p->root, process->pid);
    ssize_t n = readlink(link, path, sizeof path);
    if (n <= 0)
        return; /* what execve was told remains */
    struct bytes exe = without_deleted(bytes_of(path, (size_t)n));
    process->path = keep(process, exe);
}

static void read_maps(struct procs *p, struct process *process, uint64_t now)
{
    process->maps_tried = now;
    autoclose int fd = open_in(p, process->pid, "maps", 0);
    if (fd < 0)
        return;
    struct maps fresh = {0};
    /* An empty list is what a process in exit shows: what was known is worth more. */
    if (maps_read(&fresh, fd) < 0 || fresh.n == 0) {
        maps_release(&fresh);
        return;
    }
    maps_release(&process->maps);
    process->maps = fresh;
}

/* Reads the process context (OTEP 4719, "Reading protocol") into the identity if it is another than last
 * time: header, payload, and the header again, as it may be written meanwhile. Returns when it was published,
 * 0 if there is none. */
static uint64_t read_context(const struct procs *p, const struct process *process, struct identity *to)
{
    uint8_t bytes[IDENTITY_HEADER_BYTES];
    struct identity_header first, again;
    if (!process->maps.context)
        return 0;
    autoclose int fd = open_in(p, process->pid, "mem", 0);
    off_t at = (off_t)process->maps.context;
    if (fd < 0 || pread(fd, bytes, sizeof bytes, at) != sizeof bytes ||
        !identity_header(bytes_of(bytes, sizeof bytes), &first))
        return 0;
    if (first.published == process->published)
        return first.published;
    autofree uint8_t *payload = malloc(first.size + 1u);
    if (!payload || pread(fd, payload, first.size, (off_t)first.payload) != (ssize_t)first.size ||
        pread(fd, bytes, sizeof bytes, at) != sizeof bytes ||
        !identity_header(bytes_of(bytes, sizeof bytes), &again) || again.published != first.published)
        return process->published; /* next time */
    identity_context(to, bytes_of(payload, first.size));
    return first.published;
}

static bool says_something(const struct identity *id)
{
    return id->n > 0 || id->schema.n > 0;
}

/* What it says of itself: the environment first, which who starts it sets; then the process context. */
static void identify(const struct procs *p, struct process *process)
{
    uint8_t text[TEXT_MAX];
    struct identity *fresh = calloc(1, sizeof *fresh);
    if (fresh) {
        struct bytes all = read_in(p, process->pid, "environ", p->environ, ENVIRON_MAX);
        struct bytes name = facts_variable(all, "OTEL_SERVICE_NAME");
        if (name.n)
            identity_add(fresh, BYTES_LIT("service.name"),
                         (struct attr_value){.kind = ATTR_STRING, .text = name});
        identity_variable(fresh, facts_variable(all, "OTEL_RESOURCE_ATTRIBUTES"));
        identity_pod(fresh, read_in(p, process->pid, "cgroup", text, sizeof text));
        process->published = 0;
        process->published = read_context(p, process, fresh);
        process->service_name = identity_text(fresh, "service.name");
        identity_free(process->identity);
        process->identity = says_something(fresh) ? fresh : NULL;
    }
    if (fresh && !says_something(fresh))
        identity_free(fresh);
}

/* Looks whether a process context has appeared or changed. */
static void identify_again(struct procs *p, struct process *process, uint64_t now)
{
    process->identify_in = min_of(2 * process->identify_in, (uint64_t)PROCS_IDENTIFY_MAX_NS);
    process->identify_at = now + process->identify_in;
    if (!is_same(p, process))
        return;
    read_maps(p, process, now);
    struct identity unused = {0};
    uint64_t published = read_context(p, process, &unused);
    identity_release(&unused);
    if (published && published != process->published)
        identify(p, process);
}

void procs_identify(struct procs *p, struct process *process, uint64_t now)
{
    if (process->is_gone || process->ended || now - process->maps_tried < PROCS_REFRESH_NS)
        return;
    identify_again(p, process, now);
    process->identify_in = PROCS_IDENTIFY_NS; /* it is at it */
    process->identify_at = now + PROCS_IDENTIFY_NS;
}

int procs_open_memory(const struct procs *p, const struct process *process)
{
    return process->is_gone ? -ENOENT : open_in(p, process->pid, "mem", 0);
}

static void load(struct procs *p, struct process *process, const char *comm, uint64_t now)
{
    process->is_loaded = true;
    process->is_gone = process->pid != 0 && !is_same(p, process);
    if (!process->is_gone && !process->is_kernel) {
        uint8_t text[TEXT_MAX];
        read_maps(p, process, now); /* first: it is what a process about to end loses first */
        read_exe(p, process);
        struct bytes id = facts_container_id(read_in(p, process->pid, "cgroup", text, sizeof text));
        process->container_id = id.p ? keep(process, id) : id;
        struct bytes status = read_in(p, process->pid, "status", text, sizeof text);
        uint32_t own = facts_namespace_pid(status);
        process->namespace_pid = own ? own : process->pid;
        if (!facts_status(status, "PPid", &process->parent))
            process->parent = UINT32_MAX;
        if (!facts_status(status, "Uid", &process->user))
            process->user = UINT32_MAX;
        identify(p, process);
        process->identify_in = PROCS_IDENTIFY_NS;
        process->identify_at = now + PROCS_IDENTIFY_NS;
    }
    process->name = process->path.n ? bytes_after_last(process->path, '/') : keep(process, bytes_str(comm));
}

struct process *procs_get(struct procs *p, uint32_t pid, uint64_t start, const char *comm, bool is_kernel,
                          uint64_t now)
{
    struct process *process = find(p, pid, start);
    if (!process && !(process = add(p, pid, start, "", now)))
        return NULL;
    process->used = now;
    if (!process->is_loaded) {
        process->is_kernel = is_kernel;
        load(p, process, comm, now);
    } else if (process->identify_at && now >= process->identify_at && !process->is_gone && !process->ended) {
        identify_again(p, process, now);
    }
    return process;
}

void procs_exec(struct procs *p, uint32_t pid, uint64_t start, const char *path, uint64_t now)
{
    struct process **at = slot_of(p, pid);
    while (*at && !is_it(p, *at, pid, start))
        at = &(*at)->next;
    struct process *old = *at;
    if (old) {
        *at = old->next;
        old->next = p->retired;
        p->retired = old;
        p->n--;
    }
    (void)add(p, pid, start, path, now); /* refused, the next sample tries again */
}

void procs_fork(struct procs *p, uint32_t pid, uint64_t start, uint32_t parent, uint64_t parent_start,
                uint64_t now)
{
    const struct process *from = find(p, parent, parent_start);
    if (!from || from->path.n == 0 || from->path.n >= PATH_MAX || find(p, pid, start))
        return;
    char path[PATH_MAX];
    memcpy(path, from->path.p, from->path.n);
    path[from->path.n] = 0;
    struct process *child = add(p, pid, start, path, now);
    if (!child)
        return;
    if (from->container_id.n)
        child->container_id = keep(child, from->container_id);
    if (from->service_name.n)
        child->service_name = keep(child, from->service_name);
}

void procs_exit(struct procs *p, uint32_t pid, uint64_t start, uint64_t now)
{
    struct process *process = find(p, pid, start);
    if (process)
        process->ended = now;
}

/* Learns one process's start and executable. */
static void learn(struct procs *p, uint32_t pid, uint64_t now)
{
    uint8_t text[TEXT_MAX];
    char link[PATH_MAX], path[PATH_MAX];
    uint64_t ticks;
    snprintf(link, sizeof link, "%s/%u/exe", p->root, pid);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0 || facts_start_ticks(read_in(p, pid, "stat", text, sizeof text), &ticks) < 0)
        return; /* a kernel thread, or one that may not be seen */
    path[without_deleted(bytes_of(path, (size_t)n)).n] = 0;
    /* Ticks are coarser than what samples say: it is found by the tick (is_it). */
    struct process *process = add(p, pid, ticks * p->tick_ns - (uint64_t)p->boot_offset, path, now);
    if (process)
        process->is_rounded = true;
}

int procs_scan(struct procs *p, uint64_t now)
{
    DIR *all = opendir(p->root);
    if (!all)
        return -errno;
    for (const struct dirent *entry; (entry = readdir(all)) != NULL && p->n < PROCS_TOLD_MAX;) {
        char *end;
        unsigned long pid = strtoul(entry->d_name, &end, 10);
        if (*end == 0 && pid > 0 && pid <= INT32_MAX)
            learn(p, (uint32_t)pid, now);
    }
    closedir(all);
    return 0;
}

struct region *procs_region(struct procs *p, struct process *process, uint64_t address, bool may_refresh,
                            uint64_t now)
{
    struct region *region = maps_find(&process->maps, address);
    if (region || !may_refresh || process->is_gone || process->is_kernel)
        return region;
    if (now - process->maps_tried < PROCS_REFRESH_NS || !is_same(p, process))
        return NULL;
    read_maps(p, process, now);
    return maps_find(&process->maps, address);
}

/* Keeps a descriptor only if it is the regular file of the region. Device numbers are not compared: on btrfs
 * and overlayfs, maps and stat(2) name different ones. */
static int check_file(int fd, const struct region *region)
{
    struct stat st;
    if (fd < 0)
        return fd;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_ino == region->inode)
        return fd;
    close(fd);
    return -ESTALE;
}

int procs_open_region(const struct procs *p, const struct process *process, const struct region *region)
{
    char name[PATH_MAX];
    if (region->inode == 0 || process->is_gone)
        return -ENOENT;
    snprintf(name, sizeof name, "map_files/%lx-%lx", (unsigned long)region->start,
             (unsigned long)region->end);
    int fd = check_file(open_in(p, process->pid, name, 0), region);
    if (fd >= 0)
        return fd;
    if (region->path.n == 0 || region->path.p[0] != '/' || region->path.n >= sizeof name - 64)
        return fd;
    snprintf(name, sizeof name, "root%.*s", BYTES_FMT(region->path));
    fd = check_file(open_in(p, process->pid, name, 0), region);
    if (fd >= 0)
        return fd;
    fd = open((const char *)region->path.p, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return check_file(fd < 0 ? -errno : fd, region);
}

int procs_open_perf_map(const struct procs *p, const struct process *process)
{
    char name[128];
    snprintf(name, sizeof name, "root/tmp/perf-%u.map", process->namespace_pid);
    int fd = open_in(p, process->pid, name, O_NOFOLLOW);
    if (fd < 0) {
        snprintf(name, sizeof name, "/tmp/perf-%u.map", process->pid);
        fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | O_NOFOLLOW);
        fd = fd < 0 ? -errno : fd;
    }
    struct stat st;
    if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
        close(fd);
        return -EINVAL;
    }
    return fd;
}

void procs_sweep(struct procs *p, uint64_t now)
{
    free_list(p->retired);
    p->retired = NULL;
    for (uint32_t i = 0; i < SLOTS; i++) {
        for (struct process **at = &p->slot[i]; *at;) {
            struct process *process = *at;
            /* One that was only told of is kept while it lives, unless there are very many. */
            bool is_idle =
                now - process->used >= PROCS_IDLE_NS && (process->is_loaded || p->n > PROCS_TOLD_MAX);
            bool is_ended = process->ended && now - process->ended >= PROCS_ENDED_NS;
            if (!is_idle && !is_ended) {
                at = &process->next;
                continue;
            }
            *at = process->next;
            process_free(process);
            p->n--;
        }
    }
}

uint32_t procs_count(const struct procs *p)
{
    return p->n;
}
