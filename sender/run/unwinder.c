/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/run/unwinder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "proto/base/clock.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "sender/run/privilege.h"
#include "sender/procs/procs.h"
#include "sender/runtimes/runtime.h"
#include "sender/unwind/loader.h"
#include "sender/unwind/rest.h"

/* Memory of rows in the kernel: of the code that is sampled, 6 MiB hold a hundred megabytes; and all maps
 * together stay below 9 MiB. */
#define ROW_SHARDS 24u
/* Before the first sample, the files of what runs already are made known for this long at most; the rest on
 * demand, as all rows are. */
#define AHEAD_NS (500 * (uint64_t)NSEC_PER_MSEC)

/* Wants that wait; of what is above the kernel side asks again. */
#define WAITING_MAX 64u
/* What was opened for one page after the other is closed when nothing was asked for so long: a descriptor
 * keeps a file's mount and its disk space. */
#define IDLE_MS 1000

/* Processes whose mappings are remembered while they do not change, and mappings looked at of one. */
#define SEEN_MAX     8u
#define MAPPINGS_MAX 4096u
/* Files whose names are kept, to open them when who had them mapped has ended. */
#define PATHS 1024u

/* A file that found no room, or is no regular file, is not looked at again for this long. */
#define REFUSED_NS  (10 * (uint64_t)NSEC_PER_SEC)
#define REFUSED_MAX 16u

/* On a machine with more to do than CPUs, a new program's samples are guesses until this thread had its turn;
 * it runs for milliseconds a new file. */
#define NICE (-10)

struct refused {
    struct unwind_key key;
    uint64_t when;
};

/* A process's code, as the kernel said. */
struct seen {
    uint32_t pid, changes, user;
    uint64_t start, turn;
    struct sample_file *mapping; /* n, of which the one used last is likely the next */
    uint32_t n, cap, last;
};

struct path {
    struct unwind_key key;
    char *path; /* NULL: none */
};

/* A walk that is being ended here: the record as it will go back. */
struct resumed {
    struct unwinder *u;
    struct seen *process;
    struct sample_head head;
    uint64_t body[SAMPLE_KERNEL_MAX + SAMPLE_USER_MAX * SAMPLE_FRAME_WORDS + CONTEXT_BYTES_MAX / 8];
    const struct unwind_rest *rest;
    struct sample_file mapping; /* of the address whose rule was asked for last; end 0: none */
};

struct unwinder {
    struct sampler *sampler;
    struct tables *tables;
    struct loader loader;
    struct procs *procs; /* of the thread's own: only to open files with */
    uint64_t begun;
    pthread_t thread;
    bool is_running;
    atomic_bool stopping; /* the thread ends, also in the middle of what waits */
    int stop_fd;          /* readable then, for who sleeps */
    struct sample_want waiting[WAITING_MAX];
    uint32_t n_waiting;
    struct seen seen[SEEN_MAX];
    uint64_t turn;
    struct resumed resumed;
    struct path path[PATHS];             /* by the key's hash */
    struct refused refused[REFUSED_MAX]; /* a ring */
    uint32_t next_refused;
};

static int open_quietly(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

/* The file a process has mapped at [start, end). */
static int open_mapped(const struct unwinder *u, uint32_t pid, uint64_t start, uint64_t end)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/map_files/%lx-%lx", pid, (unsigned long)start, (unsigned long)end);
    int fd = open_quietly(path);
    if (fd >= 0)
        return fd;
    /* Without CAP_CHECKPOINT_RESTORE: by its name. */
    struct maps maps = {0};
    struct process process = {.pid = pid};
    snprintf(path, sizeof path, "/proc/%u/maps", pid);
    autoclose int maps_fd = open_quietly(path);
    if (maps_fd >= 0 && maps_read(&maps, maps_fd) == 0) {
        const struct region *region = maps_find(&maps, start);
        if (region)
            fd = procs_open_region(u->procs, &process, region);
    }
    maps_release(&maps);
    return fd;
}

static bool same_key(const struct unwind_key *a, const struct unwind_key *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static struct path *path_of(struct unwinder *u, const struct unwind_key *key)
{
    return &u->path[hash_mix(key->inode, key->mtime) % PATHS];
}

/* The name a descriptor's file has, in `path` of PATH_MAX. */
static struct bytes name_of(int fd, char *path)
{
    char link[32];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, PATH_MAX - 1);
    path[max_of(n, (ssize_t)0)] = 0;
    return bytes_str(path);
}

static void keep_path(struct unwinder *u, const struct unwind_key *key, int fd)
{
    char path[PATH_MAX];
    struct path *p = path_of(u, key);
    if (p->path && same_key(&p->key, key))
        return;
    free(p->path);
    *p = (struct path){*key, name_of(fd, path).n > 0 ? strdup(path) : NULL};
}

/* A file by the name it had. Not by size and time alone: a name leads elsewhere for another namespace's
 * files. */
static int open_by_path(struct unwinder *u, const struct unwind_key *key)
{
    const struct path *p = path_of(u, key);
    struct stat st;
    if (!p->path || !same_key(&p->key, key))
        return -ENOENT;
    int fd = open_quietly(p->path);
    if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_ino != key->inode)) {
        close(fd);
        return -ESTALE;
    }
    return fd;
}

/* Where a file is to be had: `end` 0: it is a process's executable, begun by the name `path`. */
struct whereabouts {
    struct unwinder *u;
    const struct unwind_key *key;
    uint32_t pid;
    uint64_t start, end;
    const char *path;
};

/* A loader_file's `open`. */
static int open_there(void *of)
{
    const struct whereabouts *at = of;
    int fd;
    if (at->end) {
        fd = open_mapped(at->u, at->pid, at->start, at->end);
    } else {
        char link[64];
        snprintf(link, sizeof link, "/proc/%u/exe", at->pid);
        fd = open_quietly(link);
        if (fd < 0 && at->path[0] == '/')
            fd = open_quietly(at->path);
    }
    if (fd < 0)
        return open_by_path(at->u, at->key);
    keep_path(at->u, at->key, fd);
    return fd;
}

static bool is_refused(const struct unwinder *u, const struct unwind_key *key, uint64_t now)
{
    for (uint32_t i = 0; i < REFUSED_MAX; i++)
        if (u->refused[i].when && now - u->refused[i].when < REFUSED_NS && same_key(&u->refused[i].key, key))
            return true;
    return false;
}

static void on_want(void *user, const struct sample_want *want)
{
    struct unwinder *u = user;
    for (uint32_t i = 0; i < u->n_waiting; i++)
        if (same_key(&u->waiting[i].key, &want->key))
            return;
    if (u->n_waiting < WAITING_MAX)
        u->waiting[u->n_waiting++] = *want;
}

/* Takes the want of the smallest file: those are answered in a millisecond or two, the largest in hundreds.
 */
static struct sample_want take_smallest(struct unwinder *u)
{
    uint32_t least = 0;
    for (uint32_t i = 1; i < u->n_waiting; i++)
        if (u->waiting[i].key.size < u->waiting[least].key.size)
            least = i;
    struct sample_want want = u->waiting[least];
    u->waiting[least] = u->waiting[--u->n_waiting];
    return want;
}

/* Whose code a file has, by what it is called and what is in it. */
static uint32_t recognise(int fd)
{
    char path[PATH_MAX];
    return runtime_recognise(&(struct runtime_file){.path = name_of(fd, path), .fd = fd});
}

/* Finds a runtime's place in a process. What cannot be said now is asked again. */
static void answer_runtime(struct unwinder *u, const struct sample_want *want)
{
    char path[64];
    struct maps maps = {0};
    const struct runtime *runtime = runtime_of(want->head.detail);
    struct runtime_place place = {.start = want->head.start, .runtime = want->head.detail};
    snprintf(path, sizeof path, "/proc/%u/maps", want->head.pid);
    autoclose int maps_fd = open_quietly(path);
    snprintf(path, sizeof path, "/proc/%u/mem", want->head.pid);
    autoclose int memory = open_quietly(path);
    struct runtime_process process = {
        .pid = want->head.pid, .start = want->head.start, .maps = &maps, .memory = memory};
    if (maps_fd >= 0 && memory >= 0 && maps_read(&maps, maps_fd) == 0 && runtime->prepare &&
        runtime->prepare(&process, &place) == 0)
        (void)sampler_runtime(u->sampler, want->head.pid, &place);
    maps_release(&maps);
}

static void remember_refused(struct unwinder *u, const struct unwind_key *key, uint64_t now)
{
    u->refused[u->next_refused++ % REFUSED_MAX] = (struct refused){*key, now};
}

static void answer(struct unwinder *u, const struct sample_want *want)
{
    uint64_t now = clock_monotonic();
    if (want->head.detail != RUNTIME_NATIVE) {
        answer_runtime(u, want);
        return;
    }
    if (tables_file(u->tables, &want->key) || is_refused(u, &want->key, now))
        return;
    struct whereabouts at = {u, &want->key, want->head.pid, want->start, want->end, want->path};
    struct loader_file file = {.key = &want->key, .open = open_there, .of = &at};
    /* Of one that is gone the kernel side asks again when it meets the file again. */
    if (loader_add(&u->loader, &file) < 0)
        remember_refused(u, &want->key, now);
}

static bool on_mapping(void *user, const struct sample_file *mapping)
{
    struct seen *p = user;
    if (p->n == p->cap) {
        uint32_t cap = max_of(2 * p->cap, 32u);
        struct sample_file *grown = cap > MAPPINGS_MAX ? NULL : realloc(p->mapping, cap * sizeof *p->mapping);
        if (!grown)
            return false;
        p->mapping = grown;
        p->cap = cap;
    }
    p->mapping[p->n++] = *mapping;
    return true;
}

static const struct sample_file *mapping_of(struct seen *p, uint64_t address)
{
    for (uint32_t i = 0; i < p->n; i++) {
        const struct sample_file *m = &p->mapping[(p->last + i) % p->n];
        if (address >= m->start && address < m->end) {
            p->last = (p->last + i) % p->n;
            return m;
        }
    }
    return NULL;
}

static void read_mappings(struct unwinder *u, struct seen *p, const struct sample_head *head)
{
    char path[32];
    struct stat st;
    p->n = p->last = 0;
    p->pid = head->pid;
    p->start = head->start;
    p->changes = head->changes;
    snprintf(path, sizeof path, "/proc/%u", head->pid);
    p->user = stat(path, &st) == 0 ? st.st_uid : UINT32_MAX;
    (void)sampler_files_of(u->sampler, head->pid, on_mapping, p); /* what is not there is no code */
}

/* Whether a process's mappings still are those that the walk went through: it may have begun another program.
 */
static bool are_those(struct seen *p, const struct unwind_rest *rest)
{
    for (uint32_t i = 0; i < UNWIND_REST_WAYS; i++) {
        const struct unwind_mapping *way = &rest->way[i];
        if (!(rest->ways >> i & 1) || (!way->serial && !way->is_pending))
            continue; /* generated code comes and goes */
        const struct sample_file *m = mapping_of(p, way->start);
        if (!m || m->start != way->start || m->end - m->start != way->length)
            return false;
    }
    return true;
}

/* The mappings of a sample's process, asked for anew if they have changed; none if it is not the program any
 * more that it was. *is_new: its samples should be read while it is there. */
static struct seen *see(struct unwinder *u, const struct sample_head *head, const struct unwind_rest *rest,
                        bool *is_new)
{
    struct seen *p = &u->seen[0];
    for (uint32_t i = 0; i < SEEN_MAX; i++) {
        struct seen *other = &u->seen[i];
        if (other->pid == head->pid && other->start == head->start) {
            p = other;
            break;
        }
        if (other->turn < p->turn)
            p = other;
    }
    p->turn = ++u->turn;
    *is_new = p->pid != head->pid || p->start != head->start;
    if (!*is_new && head->changes && p->changes == head->changes && are_those(p, rest))
        return p;
    read_mappings(u, p, head);
    if (!are_those(p, rest))
        p->n = 0;
    return p;
}

/* Where an address is in code: as the kernel says now, or, of a process that has ended, as the walk knew. */
static bool find_code(struct resumed *r, uint64_t address)
{
    const struct sample_file *now = mapping_of(r->process, address);
    if (now) {
        r->mapping = *now;
        return true;
    }
    for (uint32_t i = 0; r->process->n == 0 && i < UNWIND_REST_WAYS; i++) {
        const struct unwind_mapping *way = &r->rest->way[i];
        const struct unwind_key *key = tables_key(r->u->tables, way->serial);
        if (!(r->rest->ways >> i & 1) || address - way->start >= way->length || !key)
            continue;
        r->mapping = (struct sample_file){.pid = r->head.pid,
                                          .key = *key,
                                          .start = way->start,
                                          .end = way->start + way->length,
                                          .offset = way->bias + way->start};
        return true;
    }
    return false;
}

static int rest_rule(void *user, uint64_t address, struct unwind_rule *ret)
{
    struct resumed *r = user;
    const struct sample_file *m = &r->mapping;
    *ret = (struct unwind_rule){0};
    if (!find_code(r, address)) {
        r->mapping = (struct sample_file){0};
        return r->process->n == 0 ? 1 : -1;
    }
    if (m->key.inode == 0 && m->key.device)
        return 0; /* generated code */
    struct whereabouts at = {r->u, &m->key, m->pid, m->start, m->end, ""};
    struct loader_file file = {.key = &m->key, .user = r->process->user, .open = open_there, .of = &at};
    uint64_t now = clock_monotonic();
    if (is_refused(r->u, &m->key, now))
        return 1;
    int result = loader_rule(&r->u->loader, &file, address - m->start + m->offset, ret);
    if (result < 0)
        remember_refused(r->u, &m->key, now);
    return result != 0;
}

static bool rest_frame(void *user, uint64_t address)
{
    struct resumed *r = user;
    const struct unwind_file *file = r->mapping.end ? tables_file(r->u->tables, &r->mapping.key) : NULL;
    if (r->head.n_user >= SAMPLE_USER_MAX)
        return false;
    struct sample_frame frame = {.kind = SAMPLE_FRAME_CODE, .where = address};
    if (file) {
        frame.file = file->serial;
        frame.extra = (uint16_t)((address - r->mapping.start + r->mapping.offset) >> UNWIND_PAGE_BITS);
    }
    memcpy(&r->body[r->head.n_kernel + r->head.n_user++ * SAMPLE_FRAME_WORDS], &frame, sizeof frame);
    return true;
}

/* Walks on where the kernel side met rows that were not there. */
static void on_rest(void *user, const struct sample_head *head, const uint64_t *body)
{
    struct unwinder *u = user;
    struct resumed *r = &u->resumed;
    bool is_new;
    uint64_t far;
    r->u = u;
    r->rest = sampler_rest(u->sampler, head);
    r->process = see(u, head, r->rest, &is_new);
    r->head = *head;
    r->head.kind = SAMPLE_STACK;
    memcpy(r->body, body, 8 * (r->head.n_kernel + SAMPLE_USER_WORDS(&r->head)));
    r->head.n_user--; /* the last one is said again, with what is known now */
    r->head.user_end = (uint16_t)rest_walk(r->rest, &(struct rest_walk){rest_rule, rest_frame, r}, &far);
    if (far)
        sampler_far(u->sampler, head->tid, far, r->rest->at.sp);
    r->head.n_user = max_of(r->head.n_user, head->n_user);
    memcpy(r->body + r->head.n_kernel + SAMPLE_USER_WORDS(&r->head), record_context(head, body),
           head->n_context);
    sampler_return(u->sampler, &r->head, r->body, is_new);
}

static bool on_file(void *user, const struct sample_file *file)
{
    struct unwinder *u = user;
    if (clock_monotonic() - u->begun > AHEAD_NS)
        return false;
    if (file->key.inode == 0)
        return true;
    struct whereabouts at = {u, &file->key, file->pid, file->start, file->end, ""};
    struct loader_file wanted = {.key = &file->key, .open = open_there, .of = &at};
    (void)loader_add(&u->loader, &wanted);
    return true;
}

static void *run(void *argument)
{
    struct unwinder *u = argument;
    /* This thread's priority only (setpriority(2), "C library/kernel differences"). Not permitted, all is the
     * same, but later when the machine is overloaded. */
    (void)setpriority(PRIO_PROCESS, 0, NICE);
    privilege_drop(0); /* capabilities are a thread's own */
    struct pollfd wait[2] = {{.fd = sampler_wants_fd(u->sampler), .events = POLLIN},
                             {.fd = u->stop_fd, .events = POLLIN}};
    struct sampler_asked asked = {on_want, on_rest, u};
    for (bool is_idle = true; !u->stopping;) {
        int n = poll(wait, 2, is_idle ? -1 : IDLE_MS);
        if (n < 0 && errno != EINTR)
            break;
        while (!u->stopping && sampler_wants(u->sampler, &asked) >= 0 && u->n_waiting > 0) {
            struct sample_want want = take_smallest(u);
            answer(u, &want);
        }
        is_idle = n == 0;
        if (is_idle) {
            loader_rest(&u->loader);
            malloc_trim(0);
        }
    }
    return NULL;
}

int unwinder_new(struct unwinder **ret, struct sampler *sampler, struct bytes vdso)
{
    static const struct unwind_key vdso_key;
    struct tables_backend backend;
    struct unwinder *u = calloc(1, sizeof *u);
    if (!u)
        return -ENOMEM;
    sampler_tables(sampler, &backend);
    u->sampler = sampler;
    u->begun = clock_monotonic();
    u->tables = tables_new(&backend, ROW_SHARDS);
    u->procs = procs_new("/proc");
    u->stop_fd = eventfd(0, EFD_CLOEXEC);
    loader_init(&u->loader, u->tables);
    u->loader.recognise = recognise;
    if (!u->tables || !u->procs || u->stop_fd < 0) {
        unwinder_free(u);
        return -ENOMEM;
    }
    if (vdso.n)
        (void)loader_add_memory(&u->loader, &vdso_key, vdso);
    (void)sampler_files(sampler, on_file, u); /* refused, all is compiled on demand */
    loader_rest(&u->loader);
    malloc_trim(0);
    int r = -pthread_create(&u->thread, NULL, run, u);
    if (r < 0) {
        unwinder_free(u);
        return r;
    }
    u->is_running = true;
    *ret = u;
    return 0;
}

struct unwinder *unwinder_free(struct unwinder *u)
{
    if (!u)
        return NULL;
    if (u->is_running) {
        u->stopping = true;
        eventfd_write(u->stop_fd, 1);
        pthread_join(u->thread, NULL);
    }
    if (u->stop_fd >= 0)
        close(u->stop_fd);
    loader_release(&u->loader);
    for (uint32_t i = 0; i < SEEN_MAX; i++)
        free(u->seen[i].mapping);
    for (uint32_t i = 0; i < PATHS; i++)
        free(u->path[i].path);
    tables_free(u->tables);
    procs_free(u->procs);
    free(u);
    return NULL;
}

void unwinder_log(struct unwinder *u, enum log_level level)
{
    struct sampler_counts counts = sampler_counts(u->sampler);
    struct loader_counts loaded = loader_counts(&u->loader);
#define ULL(x) (unsigned long long)(x)
    log_write(
        level,
        "unwinding: complete=%llu depth=%llu unreadable=%llu not_code=%llu no_rule=%llu bad_frame=%llu "
        "other_abi=%llu missing=%llu walks=%llu resumed=%llu files=%u row_kb=%u pages=%u rules=%u loaded=%llu "
        "without=%llu failed=%llu damaged=%llu evicted=%llu refused=%llu compile_ms=%llu",
        ULL(counts.end[UNWIND_END_ROOT]), ULL(counts.end[UNWIND_END_DEPTH]),
        ULL(counts.end[UNWIND_END_UNREADABLE]), ULL(counts.end[UNWIND_END_NOT_CODE]),
        ULL(counts.end[UNWIND_END_NO_RULE]), ULL(counts.end[UNWIND_END_BAD_FRAME]),
        ULL(counts.end[UNWIND_END_OTHER_ABI]), ULL(counts.end[UNWIND_END_MISSING]), ULL(counts.walks),
        ULL(counts.rests), loaded.tables.files, loaded.tables.shards * (UNWIND_SHARD_ROWS / 256),
        loaded.tables.pages, loaded.tables.rules, ULL(loaded.loaded), ULL(loaded.without), ULL(loaded.failed),
        ULL(loaded.damaged), ULL(loaded.tables.evicted), ULL(loaded.tables.refused),
        ULL(loaded.compile_ns / NSEC_PER_MSEC));
#undef ULL
}
