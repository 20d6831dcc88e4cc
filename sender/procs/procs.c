/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/procs/procs.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "sender/procs/facts.h"
#include "sender/procs/parts.h"
#include "sender/procs/users.h"

static int64_t boot_offset(const char *root)
{
    char path[PATH_MAX], text[256];
    snprintf(path, sizeof path, "%s/self/timens_offsets", root);
    file_text(path, text, sizeof text);
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
    p->environ = malloc(PROCS_ENVIRON_MAX);
    if (!p->root || !p->environ)
        return procs_free(p);
    long ticks = sysconf(_SC_CLK_TCK);
    p->tick_ns = NSEC_PER_SEC / (uint64_t)(ticks > 0 ? ticks : 100);
    p->boot_offset = boot_offset(root);
    ledger_init(&p->ledger, LEDGER_SAVED);
    return p;
}

int procs_wish(struct procs *p, const struct procs_wishes *wishes)
{
    if (wishes->owner && !p->users && !(p->users = users_new("/etc/passwd")))
        return -ENOMEM;
    p->wishes = *wishes;
    return 0;
}

struct allowance *procs_allowance(struct procs *p, const struct process *process, uint64_t now)
{
    return ledger_share(&p->ledger, process->user, process->serial, now);
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
    for (uint32_t i = 0; i < PROCS_SLOTS; i++)
        free_list(p->slot[i]);
    free_list(p->retired);
    users_free(p->users);
    free(p->root);
    free(p->environ);
    free(p);
    return NULL;
}

static struct process **slot_of(struct procs *p, uint32_t pid)
{
    return &p->slot[hash_mix(pid, 0) % PROCS_SLOTS];
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

/* What points at it, or at NULL. */
static struct process **find_at(struct procs *p, uint32_t pid, uint64_t start)
{
    struct process **at = slot_of(p, pid);
    while (*at && !is_it(p, *at, pid, start))
        at = &(*at)->next;
    return at;
}

static struct process *find(struct procs *p, uint32_t pid, uint64_t start)
{
    return *find_at(p, pid, start);
}

static uint32_t account_of(uint32_t user)
{
    return user == UINT32_MAX ? PROCS_ACCOUNT_NOBODY : holder_of(user);
}

/* Whose a process is, by its real user: the folder is root's of who may not be looked into. */
static uint32_t account_here(const struct procs *p, uint32_t pid)
{
    uint8_t text[PROCS_TEXT_MAX];
    uint32_t user = UINT32_MAX;
    (void)facts_status(process_file(p, pid, "status", text, sizeof text), "Uid", &user);
    return account_of(user);
}

static bool has_room(const struct procs *p, uint32_t account, uint32_t most)
{
    return p->n < most && p->n_of[account] < most - p->n;
}

void procs_drop_maps(struct procs *p, struct process *process)
{
    maps_release(&process->maps);
    p->maps -= process->maps_size;
    p->maps_of[process->account] -= process->maps_size;
    process->maps_size = 0;
}

void procs_keep_maps(struct procs *p, struct process *process, struct maps *fresh)
{
    procs_drop_maps(p, process);
    const size_t size = maps_size(fresh);
    if (p->maps + p->maps_of[process->account] + 2 * size > PROCS_MAPS_MAX) {
        maps_release(fresh);
        return;
    }
    process->maps_size = maps_pack(fresh);
    process->maps = *fresh;
    p->maps += process->maps_size;
    p->maps_of[process->account] += process->maps_size;
}

static void count(struct procs *p, struct process *process, uint32_t account)
{
    p->n_of[process->account]--;
    p->n_of[account]++;
    p->maps_of[process->account] -= process->maps_size;
    p->maps_of[account] += process->maps_size;
    process->account = account;
    if (p->maps + p->maps_of[account] > PROCS_MAPS_MAX) /* they were read before it was known whose it is */
        procs_drop_maps(p, process);
}

static void uncount(struct procs *p, const struct process *process)
{
    p->n--;
    p->n_of[process->account]--;
}

/* Takes it out of the table, where `at` points at it. */
static void drop(struct procs *p, struct process **at)
{
    struct process *process = *at;
    *at = process->next;
    uncount(p, process);
    if (process->held) {
        process->next = p->retired;
        p->retired = process;
    } else {
        procs_drop_maps(p, process);
        process_free(process);
    }
}

/* Which of those refused lately it would be. */
static uint64_t *refused_at(struct procs *p, uint32_t pid)
{
    return &p->refused[hash_mix(pid, 0) % PROCS_REFUSED];
}

static void refuse(struct procs *p, uint32_t pid, uint64_t start)
{
    *refused_at(p, pid) = start + pid;
    p->has_refused = true;
}

/* `path` as execve was told it, or "". */
static struct process *add(struct procs *p, uint32_t pid, uint64_t start, const char *path, uint32_t account,
                           uint64_t now)
{
    if (!has_room(p, account, PROCS_MAX)) {
        refuse(p, pid, start);
        return NULL;
    }
    size_t n = strlen(path);
    struct process *process = calloc(1, sizeof *process + n + 1), **slot = slot_of(p, pid);
    if (!process)
        return NULL;
    memcpy(process->told, path, n);
    process->path = bytes_of(process->told, n);
    process->pid = process->namespace_pid = pid;
    atomic_init(&process->thread, pid);
    process->start = start;
    process->parent = UINT32_MAX;
    atomic_init(&process->user, UINT32_MAX);
    process->serial = ++p->serial;
    process->used = now;
    process->next = *slot;
    *slot = process;
    process->account = account;
    p->n++;
    p->n_of[account]++;
    return process;
}

void procs_identify(struct procs *p, struct process *process, uint64_t now)
{
    if (process->is_gone || process->ended || now - process->maps_tried < PROCS_REFRESH_NS)
        return;
    process_identify_again(p, process, now);
    process->identify_in = PROCS_IDENTIFY_NS; /* it is at it */
    process->identify_at = now + PROCS_IDENTIFY_NS;
}

struct process *procs_get(struct procs *p, uint32_t pid, uint32_t tid, uint64_t start, const char *comm,
                          bool is_kernel, uint64_t now)
{
    struct process *process = find(p, pid, start);
    if (!process) { /* nothing was told; while there is much room it is asked when it is loaded */
        if (p->has_refused && *refused_at(p, pid) == start + pid)
            return NULL;
        uint32_t account = p->n < PROCS_MAX / 2 ? PROCS_ACCOUNT_NOBODY : account_here(p, pid);
        if (!(process = add(p, pid, start, "", account, now)))
            return NULL;
    }
    process->used = now;
    atomic_store_explicit(&process->thread, tid, memory_order_relaxed);
    if (!process->is_loaded) {
        process->is_kernel = is_kernel;
        process_load(p, process, comm, NULL, now);
        count(p, process, account_of(process->user));
    } else if (process->identify_at && now >= process->identify_at && !process->is_gone && !process->ended) {
        process_identify_again(p, process, now);
        count(p, process, account_of(process->user));
    }
    return process;
}

void procs_told(struct procs *p, uint32_t pid, uint32_t tid, uint64_t start, const char *comm,
                const struct process_told *told, uint64_t now)
{
    struct process **at = find_at(p, pid, start), *process = *at;
    const uint32_t account = account_of(told->user);
    if (process && process->account != account && !process->is_loaded) {
        if (!has_room(p, account, PROCS_MAX)) {
            refuse(p, pid, start);
            drop(p, at);
            return;
        }
        count(p, process, account);
    }
    if (!process && !(process = add(p, pid, start, "", account, now)))
        return;
    process->used = now;
    atomic_store_explicit(&process->thread, tid, memory_order_relaxed);
    if (!process->is_loaded)
        process_load(p, process, comm, told, now);
}

void procs_exec(struct procs *p, uint32_t pid, uint64_t start, const char *path, uint64_t now)
{
    struct process **at = find_at(p, pid, start);
    uint32_t account = *at ? (*at)->account : PROCS_ACCOUNT_NOBODY;
    if (*at)
        drop(p, at);
    (void)add(p, pid, start, path, account, now); /* refused, the next sample tries again */
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
    struct process *child = add(p, pid, start, path, from->account, now);
    if (!child)
        return;
    if (from->container_id.n)
        child->container_id = process_keep(child, from->container_id);
    if (from->service_name.n)
        child->service_name = process_keep(child, from->service_name);
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
    uint8_t text[PROCS_TEXT_MAX];
    char link[PATH_MAX], path[PATH_MAX];
    uint64_t ticks;
    snprintf(link, sizeof link, "%s/%u/exe", p->root, pid);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0 || facts_start_ticks(process_file(p, pid, "stat", text, sizeof text), &ticks) < 0)
        return; /* a kernel thread, or one that may not be seen */
    path[process_path(bytes_of(path, (size_t)n)).n] = 0;
    uint32_t account = account_here(p, pid);
    if (!has_room(p, account, PROCS_TOLD_MAX))
        return;
    /* Ticks are coarser than what samples say: it is found by the tick (is_it). */
    struct process *process = add(p, pid, ticks * p->tick_ns - (uint64_t)p->boot_offset, path, account, now);
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

void procs_follow(struct procs *p, struct process *process, uint32_t changes, bool asks, uint64_t now)
{
    if (!process->changes_told || (int32_t)(changes - process->changes_told) > 0)
        process->changes_told = changes;
    if (process->maps_tried == 0) /* not read yet: what is read later is newer */
        process->maps_changes = changes;
    if (process->maps_tried == 0 || (process->maps_changes && !asks))
        return;
    /* Those of other CPUs, and stacks that were waiting for what they weigh, come later than they were. */
    if (process->maps_changes && (int32_t)(changes - process->maps_changes) <= 0)
        return;
    bool is_first = process->maps_changes == 0; /* read with the first sample, so after it */
    if (!is_first && (process->is_gone ||
                      now - process->maps_tried < max_of(process->maps_in, (uint64_t)PROCS_REFRESH_NS)))
        return;
    process->maps_changes = changes;
    if (is_first || !process_is_same(p, process))
        return;
    uint64_t before = process->maps_digest;
    process_read_maps(p, process, true, now);
    process->maps_in =
        process->maps_digest != before
            ? PROCS_REFRESH_NS
            : min_of(max_of(2 * process->maps_in, (uint64_t)PROCS_REFRESH_NS), (uint64_t)PROCS_FOLLOW_MAX_NS);
}

struct region *procs_region(struct procs *p, struct process *process, uint64_t address, bool may_refresh,
                            uint64_t now)
{
    struct region *region = maps_find(&process->maps, address);
    if (region || !may_refresh || process->is_gone || process->is_kernel)
        return region;
    if (process->maps_tried && now - process->maps_tried < PROCS_REFRESH_NS)
        return NULL;
    process->maps_tried = now;
    if (process_is_same(p, process))
        process_read_maps(p, process, true, now);
    return maps_find(&process->maps, address);
}

/* Whether nobody will ask for it any more. */
static bool is_over(const struct procs *p, const struct process *process, uint64_t now)
{
    /* One that was only told of is kept while it lives, unless there are very many. */
    bool is_idle = now - process->used >= PROCS_IDLE_NS && (process->is_loaded || p->n > PROCS_TOLD_MAX);
    return is_idle || (process->ended && now - process->ended >= PROCS_ENDED_NS);
}

/* Frees those of a list that are over and not held. Who holds one looks for no address in it. */
static void sweep(struct procs *p, struct process **at, bool is_retired, uint64_t now)
{
    while (*at) {
        struct process *process = *at;
        bool over = is_retired || is_over(p, process, now);
        if (over && process->held)
            procs_drop_maps(p, process);
        if (!over || process->held) {
            at = &process->next;
            continue;
        }
        *at = process->next;
        if (!is_retired)
            uncount(p, process);
        procs_drop_maps(p, process);
        process_free(process);
    }
}

void procs_sweep(struct procs *p, uint64_t now)
{
    if (p->has_refused)
        memset(p->refused, 0, sizeof p->refused);
    p->has_refused = false;
    sweep(p, &p->retired, true, now);
    for (uint32_t i = 0; i < PROCS_SLOTS; i++)
        sweep(p, &p->slot[i], false, now);
}

uint32_t procs_count(const struct procs *p)
{
    return p->n;
}
