/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call is one piece of memory: what it holds, and its text behind it. A source file, which many calls
 * have, is kept as a call of that name; so is what a call is inlined into, which many are. The number of a
 * call is where it stands in `call`; when one goes, the last one takes its place.
 */
#include "sender/runtimes/calls.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/hash.h"
#include "proto/base/hash_table.h"
#include "proto/base/macros.h"
#include "proto/base/thread.h"
#include "proto/base/vec.h"

struct call {
    struct call *file, *caller; /* held; NULL: there is none */
    uint32_t held, number, hash;
    uint32_t line;
    uint32_t n : 31, is_marked : 1;
    uint8_t data[]; /* the mark, if it has one; the name, and a NUL */
};

struct calls {
    pthread_mutex_t lock;
    uint32_t held;
    struct hash_table by_content;
    VEC(struct call *) call;
    int64_t size, leaving; /* of all */
};

struct calls *calls_new(void)
{
    struct calls *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    s->held = 1;
    return s;
}

struct calls *calls_hold(struct calls *s)
{
    autolock(&s->lock);
    s->held++;
    return s;
}

void calls_let_go(struct calls *s)
{
    pthread_mutex_lock(&s->lock);
    bool is_last = --s->held == 0;
    pthread_mutex_unlock(&s->lock);
    if (!is_last)
        return;
    hash_table_release(&s->by_content);
    vec_release(&s->call);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static size_t mark_size(const struct call *call)
{
    return call->is_marked ? sizeof(struct runtime_mark) : 0;
}

static struct bytes text_of(const struct call *call)
{
    return bytes_of(call->data + mark_size(call), call->n);
}

/* After a burst tables would stay as large as they were at most. Memory is out: they do. */
static void shrink(struct calls *s)
{
    struct hash_table fresh = {0};
    if (hash_table_reserve(&fresh, 2 * s->call.n) < 0)
        return;
    for (uint32_t i = 0; i < s->call.n; i++)
        hash_table_add(&fresh, hash_table_at(&fresh, s->call.p[i]->hash), i); /* there is room */
    hash_table_release(&s->by_content);
    s->by_content = fresh;
    vec_fit(&s->call);
}

static void forget(struct calls *s, struct call *call)
{
    struct call *last = vec_pop(&s->call);
    hash_table_remove(&s->by_content, call->hash, call->number);
    if (last != call) {
        hash_table_remove(&s->by_content, last->hash, last->number);
        last->number = call->number;
        s->call.p[last->number] = last;
        hash_table_add(&s->by_content, hash_table_at(&s->by_content, last->hash),
                       last->number); /* where two were */
    }
    s->size -= (int64_t)call_size(call);
    free(call);
    if (s->call.n < s->call.room / 8)
        shrink(s);
}

static void let_go(struct calls *s, struct call *call)
{
    while (call && --call->held == 0) {
        struct call *caller = call->caller;
        let_go(s, call->file); /* which has neither */
        forget(s, call);
        call = caller;
    }
}

static bool says(const struct call *call, const struct call *is, const struct runtime_name *name)
{
    return call->file == is->file && call->caller == is->caller && call->line == is->line &&
           call->is_marked == is->is_marked && bytes_eq(text_of(call), name->name) &&
           (!is->is_marked || memcmp(call->data, &name->mark, sizeof name->mark) == 0);
}

/* The one that says this, or a new one; held. What `is` holds becomes its own, or is let go. */
static struct call *add(struct calls *s, const struct call *is, const struct runtime_name *name)
{
    struct hash_at at = hash_table_at(&s->by_content, is->hash);
    for (uint32_t i; (i = hash_table_next(&s->by_content, &at)) != HASH_NONE;)
        if (says(s->call.p[i], is, name)) {
            let_go(s, is->file);
            let_go(s, is->caller);
            s->call.p[i]->held++;
            return s->call.p[i];
        }
    size_t n_mark = mark_size(is);
    struct call *call = malloc(sizeof *call + n_mark + is->n + 1);
    if (!call || vec_reserve(&s->call, (uint64_t)s->call.n + 1) < 0 ||
        hash_table_add(&s->by_content, at, s->call.n) < 0) {
        free(call);
        let_go(s, is->file);
        let_go(s, is->caller);
        return NULL;
    }
    *call = *is;
    call->number = s->call.n;
    s->call.p[s->call.n++] = call;
    memcpy(call->data, &name->mark, n_mark);
    if (is->n)
        memcpy(call->data + n_mark, name->name.p, is->n);
    call->data[n_mark + is->n] = 0;
    s->size += (int64_t)call_size(call);
    return call;
}

static struct call *keep(struct calls *s, const struct runtime_name *name, bool is_marked)
{
    struct call is = {.held = 1, .line = name->line, .n = (uint32_t)name->name.n, .is_marked = is_marked};
    const struct runtime_name file = {.name = name->file};
    if (name->name.n > INT32_MAX)
        return NULL;
    if (name->file.n && !(is.file = keep(s, &file, false)))
        return NULL;
    if (name->caller && !(is.caller = keep(s, name->caller, is_marked))) {
        let_go(s, is.file);
        return NULL;
    }
    uint64_t of = hash_mix((uintptr_t)is.file ^ (uint64_t)name->line << 48, (uintptr_t)is.caller);
    if (is_marked)
        of = hash_mix(of, hash_bytes(bytes_of(&name->mark, sizeof name->mark), hash_seed()));
    is.hash = (uint32_t)hash_mix(hash_bytes(name->name, hash_seed()), of);
    return add(s, &is, name);
}

const struct call *calls_keep(struct calls *s, const struct runtime_name *name, bool is_marked)
{
    autolock(&s->lock);
    return keep(s, name, is_marked);
}

const struct call *call_hold(struct calls *s, const struct call *call)
{
    autolock(&s->lock);
    ((struct call *)call)->held++;
    return call;
}

void call_let_go(struct calls *s, const struct call *call)
{
    autolock(&s->lock);
    let_go(s, (struct call *)call);
}

struct runtime_name call_name(const struct call *call)
{
    struct runtime_name is = {
        .name = text_of(call), .file = call->file ? text_of(call->file) : BYTES_LIT(""), .line = call->line};
    memcpy(&is.mark, call->data, mark_size(call));
    return is;
}

const struct call *call_caller(const struct call *call)
{
    return call->caller;
}

const struct call *call_file(const struct call *call)
{
    return call->file;
}

size_t call_size(const struct call *call)
{
    return sizeof *call + mark_size(call) + call->n + 1;
}

void calls_leave(struct calls *s, int64_t n)
{
    autolock(&s->lock);
    s->leaving += n;
}

size_t calls_size(struct calls *s)
{
    autolock(&s->lock);
    return (size_t)max_of(s->size - s->leaving, INT64_C(0));
}
