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

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "sender/run/privilege.h"
#include "sender/procs/procs.h"
#include "sender/runtimes/runtime.h"
#include "sender/unwind/loader.h"

/* Memory of rows in the kernel: 7.5 MiB hold those of a hundred programs and libraries, and all maps together
 * stay below 10 MB. */
#define ROW_SHARDS 30u
/* Before the first sample, what runs already is compiled for this long at most; the rest on demand. */
#define AHEAD_NS (500 * (uint64_t)NSEC_PER_MSEC)

/* Wants that wait; of what is above the kernel side asks again. */
#define WAITING_MAX 64u
/* Who begins a new program has its libraries mapped some milliseconds later: they are compiled then, and not
 * one after the other as samples meet them. */
#define FOLLOW_MS  5u
#define FOLLOW_MAX 16u

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

/* A process with a file that was not known: its other files are looked at too. */
struct follow {
    uint32_t pid;
    uint64_t due;
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
    struct follow follow[FOLLOW_MAX]; /* a queue: oldest first */
    uint32_t n_follow;
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

/* The executable that a process has begun: by its link, or by its name if it has ended already. */
static int open_executable(const struct sample_want *want)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/%u/exe", want->head.pid);
    int fd = open_quietly(link);
    return fd < 0 && want->path[0] == '/' ? open_quietly(want->path) : fd;
}

static bool same_key(const struct unwind_key *a, const struct unwind_key *b)
{
    return memcmp(a, b, sizeof *a) == 0;
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

/* Looks at the process's files when what it has begun has been mapped: at once for one that runs already. Of
 * many at a time the first; the others' files are asked for as samples meet them. */
static void follow_later(struct unwinder *u, const struct sample_want *want, uint64_t now)
{
    for (uint32_t i = 0; i < u->n_follow; i++)
        if (u->follow[i].pid == want->head.pid)
            return;
    if (u->n_follow < FOLLOW_MAX)
        u->follow[u->n_follow++] = (struct follow){want->head.pid, now + FOLLOW_MS * NSEC_PER_MSEC};
}

/* Whose code a file has, by what it is called and what is in it. */
static uint32_t recognise(int fd)
{
    char link[32], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[max_of(n, (ssize_t)0)] = 0;
    return runtime_recognise(&(struct runtime_file){.path = bytes_str(path), .fd = fd});
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

static void answer(struct unwinder *u, const struct sample_want *want)
{
    uint64_t now = clock_monotonic();
    if (want->head.detail != RUNTIME_NATIVE) {
        answer_runtime(u, want);
        return;
    }
    if (tables_has(u->tables, &want->key) || is_refused(u, &want->key, now))
        return;
    autoclose int fd =
        want->end ? open_mapped(u, want->head.pid, want->start, want->end) : open_executable(want);
    if (fd < 0)
        return; /* the kernel side asks again when it meets the file again */
    int r = loader_add(&u->loader, &want->key, fd);
    if (r == 0)
        follow_later(u, want, now);
    if (r < 0)
        u->refused[u->next_refused++ % REFUSED_MAX] = (struct refused){want->key, now};
}

static bool on_followed(void *user, const struct sample_file *file)
{
    struct unwinder *u = user;
    struct sample_want want = {
        .head.pid = file->pid, .key = file->key, .start = file->start, .end = file->end};
    if (!tables_has(u->tables, &file->key))
        on_want(u, &want);
    return u->n_waiting < WAITING_MAX;
}

/* The files of those whose time has come become wants, answered like others. Returns the milliseconds until
 * the next one's, -1 for none. */
static int follow(struct unwinder *u)
{
    uint64_t now = clock_monotonic();
    while (u->n_follow > 0 && u->follow[0].due <= now) {
        uint32_t pid = u->follow[0].pid;
        memmove(&u->follow[0], &u->follow[1], --u->n_follow * sizeof *u->follow);
        (void)sampler_files_of(u->sampler, pid, on_followed, u); /* refused, they are asked for one by one */
    }
    return u->n_follow ? (int)((u->follow[0].due - now) / NSEC_PER_MSEC) + 1 : -1;
}

static bool on_file(void *user, const struct sample_file *file)
{
    struct unwinder *u = user;
    if (clock_monotonic() - u->begun > AHEAD_NS)
        return false;
    if (tables_has(u->tables, &file->key))
        return true;
    autoclose int fd = open_mapped(u, file->pid, file->start, file->end);
    if (fd >= 0)
        (void)loader_add(&u->loader, &file->key, fd);
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
    for (int in = -1; !u->stopping; in = follow(u)) {
        if (u->n_waiting == 0 && poll(wait, 2, in) < 0 && errno != EINTR)
            break;
        while (!u->stopping && sampler_wants(u->sampler, on_want, u) >= 0 && u->n_waiting > 0) {
            struct sample_want want = take_smallest(u);
            answer(u, &want);
        }
        if (u->n_follow == 0)
            malloc_trim(0); /* what compiling took is of the size of a file's sections */
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
    log_write(level,
              "unwinding: complete=%llu depth=%llu unreadable=%llu not_code=%llu no_rule=%llu bad_frame=%llu "
              "other_abi=%llu walks=%llu files=%u row_kb=%u pages=%u rules=%u loaded=%llu without=%llu "
              "failed=%llu damaged=%llu evicted=%llu refused=%llu compile_ms=%llu",
              ULL(counts.end[UNWIND_END_ROOT]), ULL(counts.end[UNWIND_END_DEPTH]),
              ULL(counts.end[UNWIND_END_UNREADABLE]), ULL(counts.end[UNWIND_END_NOT_CODE]),
              ULL(counts.end[UNWIND_END_NO_RULE]), ULL(counts.end[UNWIND_END_BAD_FRAME]),
              ULL(counts.end[UNWIND_END_OTHER_ABI]), ULL(counts.walks), loaded.tables.files,
              loaded.tables.shards * (UNWIND_SHARD_ROWS / 256), loaded.tables.pages, loaded.tables.rules,
              ULL(loaded.loaded), ULL(loaded.without), ULL(loaded.failed), ULL(loaded.damaged),
              ULL(loaded.tables.evicted), ULL(loaded.tables.refused), ULL(loaded.compile_ns / NSEC_PER_MSEC));
#undef ULL
}
