/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/procs/parts.h"

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
#include "sender/foreign/errand.h"
#include "sender/foreign/open.h"
#include "sender/procs/facts.h"
#include "sender/procs/procs.h"
#include "sender/procs/users.h"

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
struct bytes process_file(const struct procs *p, uint32_t pid, const char *name, uint8_t *to, size_t room)
{
    autoclose int fd = open_in(p, pid, name, 0);
    /* The kernel gives each of them at once, whole or as far as there is room. */
    ssize_t n = fd < 0 ? 0 : read(fd, to, room);
    return bytes_of(to, (size_t)max_of(n, (ssize_t)0));
}

uint32_t procs_folder(const char *root, uint32_t pid, uint32_t tid)
{
    char link[PATH_MAX], path[1];
    if (tid == pid || (size_t)snprintf(link, sizeof link, "%s/%u/exe", root, pid) >= sizeof link)
        return pid;
    return readlink(link, path, sizeof path) < 0 && errno == ENOENT ? tid : pid;
}

static uint32_t folder_of(const struct procs *p, const struct process *process)
{
    return procs_folder(p->root, process->pid, atomic_load_explicit(&process->thread, memory_order_relaxed));
}

/* The same of what is had by the process's memory, which its user may keep others from. False: he does. */
static bool read_guarded(const struct procs *p, const struct process *process, const char *name, uint8_t *to,
                         size_t room, struct bytes *ret)
{
    char path[PATH_MAX];
    *ret = bytes_of(to, 0);
    if ((size_t)snprintf(path, sizeof path, "%s/%u/%s", p->root, folder_of(p, process), name) >= sizeof path)
        return true;
    ssize_t n = errand_read_path(path, to, room, process->user);
    if (n > 0)
        ret->n = (size_t)n;
    return -n != ETIMEDOUT;
}

/* Texts are kept one by one, in just their size: many processes are short, and an arena's first block is
 * more than all they have. */
struct process_text {
    struct process_text *next;
    char text[];
};

void process_free(struct process *process)
{
    maps_release(&process->maps);
    identity_free(process->identity);
    while (process->texts) {
        struct process_text *next = process->texts->next;
        free(process->texts);
        process->texts = next;
    }
    free(process);
}

/* Copies into the process's text; "" when memory is out, which leaves an attribute out. */
struct bytes process_keep(struct process *process, struct bytes b)
{
    struct process_text *one = malloc(sizeof *one + b.n + 1);
    if (!one)
        return BYTES_LIT("");
    if (b.n)
        memcpy(one->text, b.p, b.n);
    one->text[b.n] = 0;
    one->next = process->texts;
    process->texts = one;
    return bytes_of(one->text, b.n);
}

/* Whether root/PID is the same process, and not a later one with its number: a tick is rounded, so is ours.
 */
bool process_is_same(const struct procs *p, const struct process *process)
{
    uint8_t text[PROCS_TEXT_MAX];
    uint64_t ticks;
    if (facts_start_ticks(process_file(p, process->pid, "stat", text, sizeof text), &ticks) < 0)
        return false;
    return ticks == (process->start + (uint64_t)p->boot_offset) / p->tick_ns;
}

/* The path in a link under /proc without what the kernel adds for a file that is gone. */
struct bytes process_path(struct bytes path)
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
    snprintf(link, sizeof link, "%s/%u/exe", p->root, folder_of(p, process));
    ssize_t n = readlink(link, path, sizeof path);
    if (n <= 0)
        return; /* what execve was told remains */
    struct bytes exe = process_path(bytes_of(path, (size_t)n));
    process->path = process_keep(process, exe);
}

/* A program may be begun by its dynamic linker, which then is the executable: it is called by its own name,
 * if it is mapped under it. */
static void read_linked(struct procs *p, struct process *process, uint64_t now)
{
    uint8_t text[PROCS_TEXT_MAX];
    if (!facts_is_linker(process->path))
        return;
    if (process->maps_tried == 0)
        process_read_maps(p, process, false, now);
    struct bytes line;
    (void)read_guarded(p, process, "cmdline", text, sizeof text, &line);
    struct bytes program = facts_linked_program(line);
    struct bytes name = bytes_after_last(program, '/');
    for (uint32_t i = 0; name.n && i < process->maps.regions.n; i++) {
        struct bytes path = process_path(process->maps.regions.p[i].path);
        if (process->maps.regions.p[i].inode && bytes_eq(bytes_after_last(path, '/'), name)) {
            process->path = process_keep(process, path);
            return;
        }
    }
}

/* Of where regions are, and of which file; 64 bits are enough to see a change. The kernel's own page is told
 * of in the text alone. */
static uint64_t digest(const struct maps *m)
{
    uint64_t h = 0;
    for (uint32_t i = 0; i < m->regions.n && m->regions.p[i].start >> 63 == 0; i++) {
        const struct region *r = &m->regions.p[i];
        const uint64_t words[] = {r->start, r->end, r->offset, r->inode, (uint64_t)r->major << 32 | r->minor};
        h = hash_bytes(bytes_of((const uint8_t *)words, sizeof words), h);
    }
    return h;
}

/* The kernel writes a line of maps in 0.5 to 1 µs, and a process may have 65,530: its effective user pays,
 * but for the beginning, which is all there is to most. */
void process_read_maps(struct procs *p, struct process *process, bool for_code, uint64_t now)
{
    struct stat st;
    char path[PATH_MAX];
    process->maps_tried = now;
    int n = snprintf(path, sizeof path, "%s/%u/maps", p->root, folder_of(p, process));
    if ((size_t)n >= sizeof path || stat(path, &st) < 0)
        return;
    struct allowance *user = ledger_share(&p->ledger, st.st_uid, process->serial, now);
    bool is_spent = allowance_is_spent(user);
    if (is_spent && process->maps.regions.n > 0)
        return;
    struct maps fresh = {0};
    struct maps_wish wish = {.for_code = for_code,
                             .regions = is_spent ? MAPS_REGIONS_FREE : MAPS_REGIONS_MAX,
                             .bytes = is_spent ? MAPS_BYTES_FREE : MAPS_BYTES_MAX};
    int r = maps_get(&fresh, path, &wish, st.st_uid);
    allowance_charge(user, ALLOWANCE_OF_NS(wish.cost));
    if (wish.has_read)
        process->changes_read = process->changes_told;
    else
        fresh.context = process->maps.context; /* of which code alone says nothing */
    /* An empty list is what a process in exit shows: what was known is worth more. */
    if (r != 0 || fresh.regions.n == 0) {
        maps_release(&fresh);
        return;
    }
    uint64_t before = process->maps_digest;
    process->maps_digest = digest(&fresh);
    if (process->maps.regions.n && process->maps_digest == before) { /* what was remarked on them stays */
        process->maps.context = fresh.context;
        maps_release(&fresh);
        return;
    }
    procs_keep_maps(p, process, &fresh);
}

/* Reads the process context (OTEP 4719, "Reading protocol") into the identity if it is another than last
 * time: header, payload, and the header again, as it may be written meanwhile. Returns when it was published,
 * 0 if there is none. */
static uint64_t read_context(const struct procs *p, const struct process *process, struct identity *to)
{
    uint8_t bytes[IDENTITY_HEADER_BYTES];
    struct identity_header first, again;
    if (!process->maps.context || process->is_gone) /* its pid may be another's */
        return 0;
    autoclose int fd = procs_open_memory(p, process);
    off_t at = (off_t)process->maps.context;
    uint32_t user = process->user;
    if (fd < 0 || errand_pread(fd, bytes, sizeof bytes, at, user) != sizeof bytes ||
        !identity_header(bytes_of(bytes, sizeof bytes), &first))
        return 0;
    if (first.published == process->published)
        return first.published;
    autofree uint8_t *payload = malloc(first.size + 1u);
    if (!payload ||
        errand_pread(fd, payload, first.size, (off_t)first.payload, user) != (ssize_t)first.size ||
        errand_pread(fd, bytes, sizeof bytes, at, user) != sizeof bytes ||
        !identity_header(bytes_of(bytes, sizeof bytes), &again) || again.published != first.published)
        return process->published; /* next time */
    identity_context(to, bytes_of(payload, first.size));
    return first.published;
}

static bool says_something(const struct identity *id)
{
    return id->n > 0 || id->schema.n > 0;
}

/* What was wished for besides; `environment` is the text of that file. */
static void read_wishes(struct procs *p, const struct process *process, struct identity *to,
                        struct bytes environment, uint64_t now)
{
    uint8_t text[PROCS_TEXT_MAX];
    char line[IDENTITY_TEXT_MAX];
    const struct procs_wishes *w = &p->wishes;
    if (w->command_line && !process->is_gone) {
        struct bytes all;
        (void)read_guarded(p, process, "cmdline", text, sizeof text, &all);
        size_t n = facts_command_line(all, line, sizeof line);
        if (n)
            identity_know(to, BYTES_LIT("process.command_line"), bytes_of(line, n));
    }
    struct bytes owner = w->owner ? users_name(p->users, process->user, now) : BYTES_LIT("");
    if (owner.n)
        identity_know(to, BYTES_LIT("process.owner"), owner);
    for (uint32_t i = 0; i < w->n_variables; i++) {
        struct bytes value = facts_variable(environment, w->variable[i]);
        int n = snprintf(line, sizeof line, "process.environment_variable.%s", w->variable[i]);
        if (value.p && (size_t)n < sizeof line)
            identity_know(to, bytes_of(line, (size_t)n), value);
    }
}

/* What it says of itself: the environment first, which who starts it sets; then the process context. `cgroup`
 * is the text of that file; `told`: NULL, its environment is to be read, where it is there. */
static void identify(struct procs *p, struct process *process, struct bytes cgroup,
                     const struct process_told *told, uint64_t now)
{
    struct identity *fresh = calloc(1, sizeof *fresh);
    if (fresh) {
        /* Anybody can start many programs with large environments: of them the beginning is read. */
        struct allowance *user = procs_allowance(p, process, now);
        size_t room = allowance_is_spent(user) ? PROCS_ENVIRON_FREE : PROCS_ENVIRON_MAX;
        uint64_t begun = clock_thread();
        struct bytes all = told ? told->environ : bytes_of(NULL, 0);
        process->is_kept_back =
            !all.p && !process->is_gone && !read_guarded(p, process, "environ", p->environ, room, &all);
        read_wishes(p, process, fresh, all, now); /* first: who says much himself does not crowd them out */
        struct bytes name = facts_variable(all, "OTEL_SERVICE_NAME");
        if (name.n)
            identity_add(fresh, BYTES_LIT("service.name"),
                         (struct attr_value){.kind = ATTR_STRING, .text = name});
        identity_variable(fresh, facts_variable(all, "OTEL_RESOURCE_ATTRIBUTES"));
        identity_pod(fresh, cgroup);
        process->published = 0;
        process->published = read_context(p, process, fresh);
        name = identity_text(fresh, "service.name");
        if (name.n || !process->is_gone) /* its parent's, where nothing was published that could be read */
            process->service_name = name;
        identity_free(process->identity);
        process->identity = says_something(fresh) ? fresh : NULL;
        allowance_charge(user, ALLOWANCE_OF_NS(clock_thread() - begun));
    }
    if (fresh && !says_something(fresh))
        identity_free(fresh);
}

/* A server that root began may go on as another user. Whether it is another than before. */
static bool read_user(const struct procs *p, struct process *process)
{
    uint8_t text[PROCS_TEXT_MAX];
    uint32_t user, before = process->user;
    if (facts_status(process_file(p, process->pid, "status", text, sizeof text), "Uid", &user))
        process->user = user;
    return process->user != before;
}

/* Looks whether a process context has appeared or changed, and whose process it is now. */
void process_identify_again(struct procs *p, struct process *process, uint64_t now)
{
    process->identify_in = min_of(2 * process->identify_in, (uint64_t)PROCS_IDENTIFY_MAX_NS);
    process->identify_at = now + process->identify_in;
    struct allowance *user = procs_allowance(p, process, now);
    if (allowance_is_spent(user) || !process_is_same(p, process))
        return;
    bool is_same = process->changes_read && process->changes_read == process->changes_told;
    if (process->maps_tried == 0 || !is_same)
        process_read_maps(p, process, false, now);
    uint64_t begun = clock_thread();
    struct identity unused = {0};
    uint64_t published = read_context(p, process, &unused);
    identity_release(&unused);
    allowance_charge(user, ALLOWANCE_OF_NS(clock_thread() - begun));
    bool is_anothers = read_user(p, process);
    if (is_anothers || process->is_kept_back || (published && published != process->published)) {
        uint8_t cgroup[PROCS_TEXT_MAX];
        identify(p, process, process_file(p, process->pid, "cgroup", cgroup, sizeof cgroup), NULL, now);
    }
}

static bool is_young(const struct procs *p, const struct process *process)
{
    return clock_boot() - (uint64_t)p->boot_offset < process->start + PROCS_YOUNG_NS;
}

static void read_status(const struct procs *p, struct process *process)
{
    uint8_t text[PROCS_TEXT_MAX];
    struct bytes status = process_file(p, process->pid, "status", text, sizeof text);
    uint32_t own = facts_namespace_pid(status), user;
    process->namespace_pid = own ? own : process->pid;
    if (!facts_status(status, "PPid", &process->parent))
        process->parent = UINT32_MAX;
    process->user = facts_status(status, "Uid", &user) ? user : UINT32_MAX;
}

void process_load(struct procs *p, struct process *process, const char *comm, const struct process_told *told,
                  uint64_t now)
{
    uint8_t text[PROCS_TEXT_MAX];
    struct bytes cgroup = bytes_of(NULL, 0);
    process->is_loaded = true;
    process->is_gone = process->pid != 0 && !process_is_same(p, process);
    bool is_there = !process->is_gone && !process->is_kernel;
    if (told) {
        process->user = told->user;
        process->parent = told->parent;
    }
    if (is_there) {
        if (!is_young(p, process))
            process_read_maps(p, process, false,
                              now); /* first: it is what a process about to end loses first */
        read_exe(p, process);
        read_linked(p, process, now);
        cgroup = process_file(p, process->pid, "cgroup", text, sizeof text);
        struct bytes id = facts_container_id(cgroup);
        process->container_id = id.p ? process_keep(process, id) : id;
        if (!told)
            read_status(p, process);
        process->identify_in = PROCS_IDENTIFY_NS;
        process->identify_at = now + PROCS_IDENTIFY_NS;
    }
    if (is_there || told)
        identify(p, process, cgroup, told, now);
    process->name =
        process->path.n ? bytes_after_last(process->path, '/') : process_keep(process, bytes_str(comm));
}

int procs_open_memory(const struct procs *p, const struct process *process)
{
    char path[PATH_MAX];
    if (process->is_gone ||
        (size_t)snprintf(path, sizeof path, "%s/%u/mem", p->root, folder_of(p, process)) >= sizeof path)
        return -ENOENT;
    return errand_open(path, 0, process->user);
}

/* Keeps a descriptor only if it is the region's file. */
static int check_file(int fd, const struct region *region, uint32_t user)
{
    struct foreign_file file = {region->inode, region->major, region->minor};
    if (fd < 0 || foreign_is(fd, &file, user))
        return fd;
    close(fd);
    return -ESTALE;
}

static void root_of(const struct procs *p, const struct process *process, char ret[PATH_MAX])
{
    snprintf(ret, PATH_MAX, "%s/%u/root", p->root, folder_of(p, process));
}

int procs_open_region(const struct procs *p, const struct process *process, const struct region *region)
{
    char name[PATH_MAX];
    const char *path = (const char *)region->path.p;
    if (region->inode == 0 || process->is_gone)
        return -ENOENT;
    snprintf(name, sizeof name, "%s/%u/map_files/%lx-%lx", p->root, folder_of(p, process),
             (unsigned long)region->start, (unsigned long)region->end);
    int fd = check_file(foreign_open_link(name, process->user), region, process->user);
    if (fd >= 0 || foreign_is_silent(fd) || region->path.n == 0 || region->path.p[0] != '/')
        return fd;
    root_of(p, process, name);
    fd = check_file(foreign_open(name, path, 0, process->user), region, process->user);
    if (fd >= 0 || foreign_is_silent(fd))
        return fd;
    return check_file(foreign_open("/", path, 0, process->user), region, process->user);
}

int procs_open_perf_map(const struct procs *p, const struct process *process)
{
    char root[PATH_MAX], name[64];
    struct stat st;
    snprintf(root, sizeof root, "%s/%u", p->root, process->pid);
    if (stat(root, &st) < 0) /* it is its effective user's; root's, if it may not be looked into */
        return -errno;
    root_of(p, process, root);
    snprintf(name, sizeof name, "/tmp/perf-%u.map", process->namespace_pid);
    int fd = foreign_open(root, name, O_NOFOLLOW, process->user);
    if (fd < 0 || foreign_may_speak(fd, st.st_uid))
        return fd;
    close(fd);
    return -EPERM;
}
