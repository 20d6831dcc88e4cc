/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/run/unwinder.h"

#include <errno.h>
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
#include "proto/base/thread.h"
#include "sender/run/privilege.h"
#include "sender/foreign/errand.h"
#include "sender/procs/maps.h"
#include "sender/procs/procs.h"
#include "sender/run/known.h"
#include "sender/run/opener.h"
#include "sender/run/resumer.h"
#include "sender/run/strangers.h"
#include "sender/runtimes/runtime.h"
#include "sender/unwind/loader.h"

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

/* On a machine with more to do than CPUs, a new program's samples are guesses until this thread had its turn;
 * it runs for milliseconds a new file. */
#define NICE (-10)

struct unwinder {
    struct sampler *sampler;
    struct tables *tables;
    struct loader loader;
    struct opener *opener;
    struct known *known;
    struct resumer *resumer;
    struct strangers strangers;
    uint64_t begun;
    pthread_t thread;
    bool is_running;
    atomic_bool stopping; /* the thread ends, also in the middle of what waits */
    int stop_fd;          /* readable then, for who sleeps */
    struct sample_want waiting[WAITING_MAX];
    uint32_t n_waiting;
    struct source_pages pages; /* of the process that is being prepared */
};

static void on_want(void *user, const struct sample_want *want)
{
    struct unwinder *u = user;
    for (uint32_t i = 0; i < u->n_waiting; i++)
        if (memcmp(&u->waiting[i].key, &want->key, sizeof want->key) == 0)
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
static uint32_t recognise(void *user, int fd, const struct source *source)
{
    struct unwinder *u = user;
    char path[PATH_MAX];
    struct runtime_file file = {.path = opener_name(fd, path), .source = source};
    enum runtime_tag runtime = runtime_recognise(&file);
    const char *stranger = runtime == RUNTIME_NATIVE ? runtime_stranger(&file) : NULL;
    if (stranger && !allowance_is_spent(source->allowance))
        strangers_say(&u->strangers, fd, path, stranger);
    return runtime;
}

/* A process in which a runtime's code was met, at an address. */
struct met {
    uint32_t pid, folder, runtime; /* folder: procs_folder */
    uint64_t start, at;
};

/* Files of a process that are tried for the one that has the runtime. */
#define PLACES_MAX 16u

/* Says that a runtime is not known in the version or build that a file has: if it is the runtime's, and the
 * process was there to be asked. */
static void say_not_known(struct unwinder *u, const struct met *met, const struct runtime_process *process,
                          const struct region *region, int fd)
{
    const struct runtime *runtime = runtime_of(met->runtime);
    char path[PATH_MAX];
    uint8_t byte;
    struct runtime_file file = {.path = opener_name(fd, path), .source = process->file};
    if (runtime->resolve && runtime->recognise(&file) &&
        source_read(process->memory, region->start, &byte, sizeof byte) &&
        !allowance_is_spent(process->memory->allowance))
        strangers_say(&u->strangers, fd, path, runtime->name);
}

/* Asks the runtime for its place by one of the process's files. 0, RUNTIME_NOT_KNOWN or -errno. */
static int prepare_by(struct unwinder *u, const struct met *met, struct runtime_process *process,
                      const struct region *region)
{
    struct allowance *allowance = process->memory->allowance;
    struct runtime_place place = {
        .start = met->start, .runtime = met->runtime, .user = allowance_user(allowance)};
    struct source file;
    autoclose int fd = opener_mapped(u->opener, met->folder, region->start, region->end);
    int r = fd < 0 ? fd : source_file(&file, fd);
    if (r < 0)
        return r;
    file.allowance = allowance;
    process->file = &file;
    process->region = region;
    r = elf_bias(&file, region->offset, region->start, &process->bias) ? 0 : -ENOENT;
    r = r < 0 ? r : runtime_of(met->runtime)->prepare(process, &place);
    if (r == RUNTIME_NOT_KNOWN)
        say_not_known(u, met, process, region, fd);
    if (r != 0)
        return r;
    uint64_t begun = clock_thread();
    r = sampler_runtime(u->sampler, met->pid, &place);
    allowance_charge(allowance, ALLOWANCE_OF_NS(clock_thread() - begun)); /* it may have made room */
    return r;
}

/* Asks the runtime for its place in a process whose mappings were read: by the file that its code was met in;
 * or, as code that it generates (PHP's is in /dev/zero) knows nothing of it, by the first that has it. */
static void prepare(struct unwinder *u, const struct met *met, struct maps *maps, uint32_t user,
                    struct allowance *allowance)
{
    char path[64];
    const struct region *region = maps_find(maps, met->at);
    snprintf(path, sizeof path, "/proc/%u/mem", met->folder);
    autoclose int memory_fd = errand_open(path, 0, user);
    struct source memory = source_process(memory_fd, user, allowance, &u->pages);
    u->pages.n = 0;
    if (memory_fd < 0 || !region || !runtime_of(met->runtime)->prepare)
        return;
    struct runtime_process process = {.pid = met->pid, .start = met->start, .memory = &memory, .maps = maps};
    if (prepare_by(u, met, &process, region) == 0)
        return;
    for (uint32_t i = 0, n = 0; i < maps->regions.n && n < PLACES_MAX; i++) {
        const struct region *other = &maps->regions.p[i];
        if (other == region || other->inode == 0)
            continue;
        n++;
        if (prepare_by(u, met, &process, other) == 0)
            return;
    }
}

/* Finds a runtime's place in a process. What cannot be said now is asked again. */
static void find_place(struct unwinder *u, const struct met *met)
{
    cleanup(maps_release) struct maps maps = {0};
    uint32_t user = opener_user(met->folder);
    struct allowance *allowance = ledger_of(&u->loader.ledger, user, clock_monotonic());
    if (allowance_take(allowance, MAPS_BYTES_FREE) && opener_maps(met->folder, user, &maps) == 0)
        prepare(u, met, &maps, user, allowance);
}

/* Whose code a file that is known has. */
static uint32_t runtime_of_file(const struct unwinder *u, const struct unwind_key *key)
{
    const struct unwind_file *file = tables_file(u->tables, key);
    return file ? file->runtime : RUNTIME_NATIVE;
}

static void answer(struct unwinder *u, const struct sample_want *want)
{
    uint32_t folder = procs_folder("/proc", want->head.pid, want->head.tid);
    struct met met = {want->head.pid, folder, want->head.detail, want->head.start, want->start};
    if (met.runtime != RUNTIME_NATIVE) {
        find_place(u, &met);
        return;
    }
    struct whereabouts at = {u->opener, &want->key, folder, want->start, want->end, want->path};
    struct loader_file file = {
        .key = &want->key, .user = opener_user(folder), .open = opener_open, .of = &at};
    /* What is gone, or finds no room: the kernel side asks again when it meets the file again. */
    (void)loader_add(&u->loader, &file);
    met.runtime = runtime_of_file(u, &want->key);
    if (met.runtime != RUNTIME_NATIVE)
        find_place(u, &met);
}

static void on_rest(void *user, const struct sample_head *head, const uint64_t *body)
{
    struct unwinder *u = user;
    resumer_rest(u->resumer, head, body);
}

static void on_known(void *user, uint32_t serial, const struct unwind_key *key, int fd)
{
    struct unwinder *u = user;
    known_add(u->known, serial, key, fd);
}

static bool on_file(void *user, const struct sample_file *file)
{
    struct unwinder *u = user;
    if (clock_monotonic() - u->begun > AHEAD_NS)
        return false;
    if (file->key.inode == 0)
        return true;
    struct whereabouts at = {u->opener, &file->key, file->pid, file->start, file->end, ""};
    struct loader_file wanted = {
        .key = &file->key, .user = opener_user(file->pid), .open = opener_open, .of = &at};
    (void)loader_add(&u->loader, &wanted);
    struct met met = {file->pid, file->pid, runtime_of_file(u, &file->key), file->began, file->start};
    if (met.runtime != RUNTIME_NATIVE)
        find_place(u, &met);
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
            known_rest(u->known);
            malloc_trim(0);
        }
    }
    while (sampler_wants(u->sampler, &asked) >
           0) /* stacks whose clocks have stopped: they are somebody's time */
        u->n_waiting = 0;
    return NULL;
}

int unwinder_new(struct unwinder **ret, struct sampler *sampler, struct known *known, struct bytes vdso)
{
    static const struct unwind_key vdso_key;
    struct tables_backend backend;
    struct unwinder *u = calloc(1, sizeof *u);
    if (!u)
        return -ENOMEM;
    sampler_tables(sampler, &backend);
    u->sampler = sampler;
    u->known = known;
    u->begun = clock_monotonic();
    u->tables = tables_new(&backend, ROW_SHARDS);
    u->opener = opener_new();
    u->resumer = resumer_new(sampler, &u->loader, u->opener);
    u->stop_fd = eventfd(0, EFD_CLOEXEC);
    loader_init(&u->loader, u->tables);
    u->loader.recognise = recognise;
    u->loader.known = on_known;
    u->loader.user = u;
    if (!u->tables || !u->opener || !u->resumer || u->stop_fd < 0) {
        unwinder_free(u);
        return -ENOMEM;
    }
    if (vdso.n)
        (void)loader_add_memory(&u->loader, &vdso_key, vdso);
    (void)sampler_files(sampler, on_file, u); /* refused, all is compiled on demand */
    loader_rest(&u->loader);
    known_rest(known);
    malloc_trim(0);
    int r = thread_begin(&u->thread, NULL, "unwinder", run, u);
    if (r < 0) {
        unwinder_free(u);
        return r;
    }
    u->is_running = true;
    *ret = u;
    return 0;
}

void unwinder_stop(struct unwinder *u)
{
    if (!u->is_running)
        return;
    u->stopping = true;
    eventfd_write(u->stop_fd, 1);
    pthread_join(u->thread, NULL);
    u->is_running = false;
}

struct unwinder *unwinder_free(struct unwinder *u)
{
    if (!u)
        return NULL;
    unwinder_stop(u);
    if (u->stop_fd >= 0)
        close(u->stop_fd);
    loader_release(&u->loader);
    resumer_free(u->resumer);
    opener_free(u->opener);
    tables_free(u->tables);
    free(u);
    return NULL;
}

struct loader_counts unwinder_counts(struct unwinder *u)
{
    return loader_counts(&u->loader);
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
        "without=%llu failed=%llu unpaid=%llu damaged=%llu evicted=%llu refused=%llu compile_ms=%llu",
        ULL(counts.end[UNWIND_END_ROOT]), ULL(counts.end[UNWIND_END_DEPTH]),
        ULL(counts.end[UNWIND_END_UNREADABLE]), ULL(counts.end[UNWIND_END_NOT_CODE]),
        ULL(counts.end[UNWIND_END_NO_RULE]), ULL(counts.end[UNWIND_END_BAD_FRAME]),
        ULL(counts.end[UNWIND_END_OTHER_ABI]), ULL(counts.end[UNWIND_END_MISSING]), ULL(counts.walks),
        ULL(counts.rests), loaded.tables.files, loaded.tables.shards * (UNWIND_SHARD_ROWS / 256),
        loaded.tables.pages, loaded.tables.rules, ULL(loaded.loaded), ULL(loaded.without), ULL(loaded.failed),
        ULL(loaded.unpaid), ULL(loaded.damaged), ULL(loaded.tables.evicted), ULL(loaded.tables.refused),
        ULL(loaded.compile_ns / NSEC_PER_MSEC));
#undef ULL
}
