/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel side is told of processes: where threads publish their contexts, and where runtimes have
 * their state.
 *
 * A child has its parent's runtime from fork on, so anybody fills the map of those by forking. When it is
 * full, processes that no walk has met lately leave, those who were met longest ago first; they are asked for
 * again when they are sampled. If all were met lately, those of the user who has most leave, unless it is he
 * who asks. Of contexts, which any program can say that it publishes, nobody knows who was met: the latter
 * alone.
 */
#include <errno.h>
#include <stdlib.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "sender/attach/parts.h"
#include "sender/attach/sampler.h"
#include "sender/foreign/holdings.h"

/* Processes that leave at a time. */
#define LEAVING_MAX 128u
/* Who was not met for so long is not missed. */
#define IDLE_S 8u
/* As often room is made for one: who forks takes it meanwhile. */
#define TRIES_MAX 4u

/* Puts what a process publishes where the kernel side looks. */
static int put_place(struct bpf_map *map, const void *key, const void *place)
{
    return bpf_map_update_elem(bpf_map__fd(map), key, place, BPF_ANY) == 0 ? 0 : -errno;
}

static int count_refused(struct sampler *s, int r)
{
    if (r < 0)
        __atomic_fetch_add(&s->places_refused, 1, __ATOMIC_RELAXED);
    return r;
}

/* A process that has a place. */
struct placed {
    uint32_t pid, user, used;
};

/* What the kernel gives of them at a time. */
#define PART 512u
struct part {
    union {
        struct {
            uint64_t key[PART];
            struct runtime_place place[PART];
        } runtime;
        struct {
            uint32_t key[PART];
            struct context_place place[PART];
        } context;
    };
};

static struct placed runtime_placed(const struct part *p, uint32_t i)
{
    return (struct placed){(uint32_t)p->runtime.key[i], p->runtime.place[i].user, p->runtime.place[i].used};
}

static struct placed context_placed(const struct part *p, uint32_t i)
{
    return (struct placed){p->context.key[i], p->context.place[i].user, 0};
}

/* One of the kernel side's maps of places. */
struct places {
    int fd;
    uint32_t most;
    bool is_of_contexts;
};

static int by_pid(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    return order_of(x->pid, y->pid);
}

/* Each process once, as it was met last: it may have several runtimes. How many. */
static uint32_t merge(struct placed *p, uint32_t n)
{
    uint32_t n_merged = 0;
    qsort(p, n, sizeof *p, by_pid);
    for (uint32_t i = 0; i < n; i++) {
        struct placed *last = n_merged ? &p[n_merged - 1] : NULL;
        if (last && last->pid == p[i].pid)
            last->used = max_of(last->used, p[i].used);
        else
            p[n_merged++] = p[i];
    }
    return n_merged;
}

/* All there are, but for those that come or go meanwhile. How many. */
static uint32_t list_placed(const struct places *of, struct placed *ret)
{
    uint32_t n = 0;
    uint64_t at; /* as large as a key */
    int r = 0;
    autofree struct part *part = malloc(sizeof *part);
    for (bool is_first = true; part && r == 0 && n < of->most; is_first = false) {
        uint32_t n_part = PART;
        void *key = of->is_of_contexts ? (void *)part->context.key : part->runtime.key,
             *place = of->is_of_contexts ? (void *)part->context.place : part->runtime.place;
        r = bpf_map_lookup_batch(of->fd, is_first ? NULL : &at, &at, key, place, &n_part, NULL);
        n_part = r == 0 || errno == ENOENT ? n_part : 0; /* ENOENT: these are the last */
        for (uint32_t i = 0; i < n_part && n < of->most; i++)
            ret[n++] = of->is_of_contexts ? context_placed(part, i) : runtime_placed(part, i);
    }
    return n ? merge(ret, n) : 0;
}

static int by_use(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    return order_of(x->used, y->used);
}

/* Leaves those of the user who has most, in their order. How many more they are than another user's. */
static uint32_t keep_most(struct placed *p, uint32_t n, uint32_t other)
{
    struct holdings places = {0};
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < n; i++)
        holdings_add(&places, holder_of(p[i].user), 1);
    for (uint32_t i = 0; i < n; i++)
        if (holder_of(p[i].user) == places.most)
            p[n_kept++] = p[i];
    return n_kept - (uint32_t)places.of[holder_of(other)];
}

static void forget_places(const struct places *of, uint32_t pid)
{
    if (of->is_of_contexts) {
        (void)bpf_map_delete_elem(of->fd, &pid);
        return;
    }
    for (uint32_t runtime = RUNTIME_NATIVE; runtime < RUNTIME_TAGS; runtime++) {
        uint64_t key = RUNTIME_PLACE_KEY(pid, runtime);
        (void)bpf_map_delete_elem(of->fd, &key);
    }
}

/* Makes room for a process of a user's. False: there is none to be made. */
static bool make_room(const struct places *of, uint32_t user, uint32_t now)
{
    autofree struct placed *placed = malloc(of->most * sizeof *placed);
    uint32_t n = placed ? list_placed(of, placed) : 0, n_leaving = 0;
    if (n)
        qsort(placed, n, sizeof *placed, by_use);
    while (n_leaving < n && !of->is_of_contexts && now - placed[n_leaving].used >= IDLE_S)
        n_leaving++;
    if (n && n_leaving == 0)
        n_leaving = keep_most(placed, n, user) / 2;
    n_leaving = min_of(n_leaving, LEAVING_MAX);
    for (uint32_t i = 0; i < n_leaving; i++)
        forget_places(of, placed[i].pid);
    return n_leaving > 0;
}

int sampler_place(struct sampler *s, uint32_t pid, const struct context_place *place)
{
    const struct places all = {bpf_map__fd(s->skel->maps.context_places), CONTEXT_PLACES, true};
    volatile __u32 *n = &s->skel->bss->n_context_places;
    if (!place) {
        if (*n)
            (void)bpf_map_delete_elem(all.fd, &pid); /* which an execve may have done already */
        return 0;
    }
    int r = put_place(s->skel->maps.context_places, &pid, place);
    if (r == -E2BIG && make_room(&all, place->user, 0))
        r = put_place(s->skel->maps.context_places, &pid, place);
    if (r == 0)
        *n = 1; /* from now on there may be some */
    return count_refused(s, r);
}

int sampler_runtime(struct sampler *s, uint32_t pid, const struct runtime_place *place)
{
    struct bpf_map *map = s->skel->maps.runtime_places;
    const struct places all = {bpf_map__fd(map), RUNTIME_PLACES, false};
    uint64_t key = RUNTIME_PLACE_KEY(pid, place->runtime), any = RUNTIME_PLACE_KEY(pid, RUNTIME_NATIVE);
    struct runtime_place used = *place;
    used.used = RUNTIME_PLACE_TIME(clock_monotonic());
    int r = -E2BIG;
    for (uint32_t i = 0; i < TRIES_MAX && r == -E2BIG; i++) {
        if (i > 0 && !make_room(&all, place->user, used.used))
            break;
        r = put_place(map, &any, place);
        r = r < 0 ? r : put_place(map, &key, &used);
    }
    if (r == 0)
        *(volatile __u32 *)&s->skel->bss->n_runtime_places = 1; /* from now on there may be some */
    return count_refused(s, r);
}

bool sampler_runtime_of(const struct sampler *s, uint32_t pid, uint32_t runtime, struct runtime_place *ret)
{
    uint64_t key = RUNTIME_PLACE_KEY(pid, runtime);
    return bpf_map_lookup_elem(bpf_map__fd(s->skel->maps.runtime_places), &key, ret) == 0;
}
