/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table a process, which is counted by who holds one of its words: it goes when the last one does, and when
 * words_ask is not to give out more of it. The loop's thread alone makes tables and words; the words' thread
 * alone says what they are called: calls, which the table holds as long as it is there. A word whose name has
 * changed gets another one; until then it has the one that it had.
 */
#include "sender/runtimes/words.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/hash.h"
#include "proto/base/hash_table.h"
#include "proto/base/intern.h"
#include "proto/base/macros.h"
#include "proto/base/thread.h"
#include "proto/base/vec.h"
#include "sender/foreign/allowance.h"
#include "sender/foreign/errand.h"
#include "sender/foreign/holdings.h"
#include "sender/procs/procs.h"

struct word {
    struct sample_frame frame;
    struct word_table *table;
    _Atomic uintptr_t call; /* 0: there is none; with ASKED while another one is looked for */
};
#define ASKED ((uintptr_t)1)

/* Words that are made in one go: they stay where they are. */
#define BLOCK_WORDS 128u

struct word_table {
    struct words_process of;
    uint64_t used;
    _Atomic uint32_t thread; /* of.thread, as it was said last */
    _Atomic uint32_t held;   /* its words, and itself by `tables` */
    struct hash_table by_frame;
    VEC(struct word *) block; /* of BLOCK_WORDS, by number there */
    uint32_t n;               /* words in them */
    struct calls *calls;
    int64_t n_leaving; /* what was said to leave with it (calls_leave) */
    /* The words' thread's. */
    VEC(const struct call *) former; /* what words were called, which somebody may still look at */
    struct intern likenesses;
    VEC(const struct word *) like; /* by number in `likenesses`, one that has a name */
    struct intern charged;         /* addresses of the calls that are in n_text once for all words */
    _Atomic size_t n_text;
    char version[RUNTIME_TAGS][RUNTIME_VERSION_MAX]; /* there before the first name of the runtime's is */
};

struct words {
    struct words_options options;
    pthread_t thread;
    VEC(struct word_table *) tables;
    uint32_t n;     /* words in them */
    bool has_asked; /* for some that are new: the thread is to be woken */
    struct calls *calls;

    pthread_mutex_t lock;
    pthread_cond_t wake, answered_some;
    VEC(struct word *) asked, taken; /* their tables are held */
    uint64_t n_asked, answered, named;
    bool stopping;

    /* The thread's; so is `taken`: NULL is what was taken up. */
    uint32_t next; /* the first there that waits */
    struct ledger ledger;
    struct word_table *open; /* whose memory and place these are; held */
    int memory;
    uint32_t runtime; /* of the place; 0: there is none */
    struct runtime_place place;
};

const struct call *word_call(const struct word *word)
{
    return (const struct call *)(atomic_load_explicit(&word->call, memory_order_acquire) & ~ASKED);
}

static struct word *word_at(const struct word_table *t, uint32_t i)
{
    return &t->block.p[i / BLOCK_WORDS][i % BLOCK_WORDS];
}

static void table_let_go(struct word_table *t)
{
    if (atomic_fetch_sub(&t->held, 1) > 1)
        return;
    for (uint32_t i = 0; i < t->n; i++)
        call_let_go(t->calls, word_call(word_at(t, i)));
    for (uint32_t i = 0; i < t->former.n; i++)
        call_let_go(t->calls, t->former.p[i]);
    calls_leave(t->calls, -t->n_leaving);
    calls_let_go(t->calls);
    hash_table_release(&t->by_frame);
    intern_release(&t->likenesses);
    intern_release(&t->charged);
    vec_release(&t->like);
    vec_release(&t->former);
    for (uint32_t i = 0; i < t->block.n; i++)
        free(t->block.p[i]);
    vec_release(&t->block);
    free(t);
}

const struct runtime *word_runtime(const struct word *word)
{
    return runtime_of(word->frame.runtime);
}

const char *word_version(const struct word *word)
{
    return word->table->version[word->frame.runtime];
}

void word_let_go(struct word *word)
{
    table_let_go(word->table);
}

/* Lets go of the memory that is open. */
static void close_table(struct words *w)
{
    if (!w->open)
        return;
    if (w->memory >= 0)
        close(w->memory);
    table_let_go(w->open);
    w->open = NULL;
}

/* Whether a runtime has its place in a process: it is forgotten with that. */
static bool has_place(struct words *w, const struct word_table *t, uint32_t runtime)
{
    return w->options.place(w->options.user, t->of.pid, runtime, &w->place) && w->place.start == t->of.start;
}

/* Turns to a process, and to its runtime's place. False: there is none. */
static bool open_table(struct words *w, struct word_table *t, uint32_t runtime)
{
    if (w->open != t) {
        close_table(w);
        w->open = t;
        atomic_fetch_add(&t->held, 1);
        w->memory = -1;
        w->runtime = 0;
    }
    if (w->runtime != runtime && has_place(w, t, runtime))
        w->runtime = runtime;
    if (w->runtime == runtime && !*t->version[runtime] && runtime_of(runtime)->version)
        runtime_of(runtime)->version(&w->place, t->version[runtime]);
    return w->runtime == runtime;
}

/* Keeps a word that has got its name for those that are like it, if it is the first one. */
static void keep_like(struct word_table *t, uint64_t likeness, const struct word *word)
{
    struct bytes key = bytes_of(&likeness, sizeof likeness);
    if (likeness && intern_find(&t->likenesses, key) == INTERN_NONE &&
        vec_reserve(&t->like, (uint64_t)t->like.n + 1) == 0 && intern_add(&t->likenesses, key) != INTERN_NONE)
        t->like.p[t->like.n++] = word;
}

/* What a word is called that is like this one, held. NULL: there is none. */
static const struct call *call_like(const struct word_table *t, uint64_t likeness)
{
    uint32_t number =
        likeness ? intern_find(&t->likenesses, bytes_of(&likeness, sizeof likeness)) : INTERN_NONE;
    const struct call *call = number != INTERN_NONE ? word_call(t->like.p[number]) : NULL;
    return call ? call_hold(t->calls, call) : NULL;
}

/* Words of one process and runtime whose names are looked for by one errand, which costs as much as one or
 * two names do; and how many that wait are looked through for them. */
#define TOGETHER 32u
#define WAITING  256u

/* One of them. */
struct sought {
    struct sample_frame frame;
    struct runtime_mark mark; /* of the name that it has */
    bool has, is_done, is_same, is_found;
    struct runtime_name name;
};

/* What is looked for in a process's memory, by an errand: that its owner keeps us waiting there costs nobody
 * else his names. */
struct finding {
    struct errand errand;
    struct source memory; /* its own descriptor; -1: it opens `path` */
    struct allowance all, one;
    struct runtime_process process;
    struct runtime_place place;
    struct arena text;
    char path[256];
    uint32_t n;
    struct sought sought[];
};

static void forget_finding(struct errand *e)
{
    struct finding *f = (struct finding *)e;
    cleanup_close(&f->memory.fd);
    arena_release(&f->text);
    free(f);
}

static void look(struct errand *e)
{
    struct finding *f = (struct finding *)e;
    const struct runtime *runtime = runtime_of(f->place.runtime);
    if (f->memory.fd < 0)
        f->memory.fd = open(f->path, O_RDONLY | O_CLOEXEC);
    for (uint32_t i = 0; i < f->n && f->memory.fd >= 0 && !allowance_is_spent(&f->all); i++) {
        struct sought *s = &f->sought[i];
        f->one = (struct allowance){.left = WORDS_COST_MAX, .from = &f->all};
        s->is_done = true;
        s->is_same = s->has && !runtime->has_changed(&f->process, &s->mark);
        s->is_found = !s->is_same && runtime->resolve(&f->process, &s->frame, &f->text, &s->name) &&
                      !allowance_is_spent(&f->one);
    }
}

static struct finding *finding_new(const struct words *w, struct word *const *word, uint32_t n)
{
    const struct word_table *t = word[0]->table;
    struct finding *f = calloc(1, sizeof *f + n * sizeof *f->sought);
    if (!f)
        return NULL;
    *f = (struct finding){
        .errand = {.go = look, .forget = forget_finding, .where = t->of.pid}, .place = w->place, .n = n};
    uint32_t thread = atomic_load_explicit(&t->thread, memory_order_relaxed);
    uint32_t folder =
        w->memory < 0 ? procs_folder(w->options.proc_root, t->of.pid, thread) : 0; /* else it is open */
    snprintf(f->path, sizeof f->path, "%s/%u/mem", w->options.proc_root, folder);
    f->memory = (struct source){.fd = -1, .size = INT64_MAX, .allowance = &f->one};
    f->process = (struct runtime_process){
        .pid = t->of.pid, .start = t->of.start, .memory = &f->memory, .place = &f->place};
    for (uint32_t i = 0; i < n; i++) {
        const struct call *has = word_call(word[i]);
        struct sought *s = &f->sought[i];
        s->frame = word[i]->frame;
        s->name.file = BYTES_LIT("");
        s->has = has && word_runtime(word[i])->has_changed;
        if (s->has)
            s->mark = call_name(has).mark;
    }
    if (w->memory < 0 || (f->memory.fd = fcntl(w->memory, F_DUPFD_CLOEXEC, 3)) >= 0)
        return f;
    free(f);
    return NULL;
}

/* Sends for names. NULL: they cannot be had. Memory that was opened for it is of the same process if the
 * place still is there behind that. */
static struct finding *find(struct words *w, struct word *const *word, uint32_t n)
{
    struct word_table *t = word[0]->table;
    const struct runtime *runtime = word_runtime(word[0]);
    struct allowance *share = ledger_share(&w->ledger, t->of.user, t->of.serial, clock_monotonic());
    if (!runtime->resolve || allowance_is_spent(share) || !open_table(w, t, word[0]->frame.runtime))
        return NULL;
    struct finding *f = finding_new(w, word, n);
    if (!f)
        return NULL;
    f->all.left = allowance_left(share);
    if (errand_run(&f->errand, t->of.user) < 0)
        return NULL;
    allowance_charge(share, f->all.charged);
    if (w->memory < 0 && (f->memory.fd < 0 || !has_place(w, t, w->runtime))) {
        forget_finding(&f->errand);
        return NULL;
    }
    if (w->memory < 0)
        w->memory = take_fd(&f->memory.fd);
    return f;
}

/* What a call takes that many words have, a file or what they are inlined into; 0: it is charged already. */
static size_t shared_size(struct word_table *t, const struct call *call)
{
    uint32_t before = t->charged.n;
    if (!call ||
        (intern_add(&t->charged, bytes_of(&call, sizeof call)) != INTERN_NONE && t->charged.n == before))
        return 0;
    return call_size(call) + shared_size(t, call_file(call)) + shared_size(t, call_caller(call));
}

/* Charges a table for a call as if no other process had it: it may be the last one that does. */
static void charge(struct word_table *t, const struct call *call)
{
    size_t n = call_size(call) + shared_size(t, call_file(call)) + shared_size(t, call_caller(call));
    atomic_fetch_add(&t->n_text, n);
}

/* What is found of a word, by reading it or by one that is like it; held. NULL: nothing, or memory is out. */
static const struct call *keep_found(struct word_table *t, const struct word *word, const struct sought *s)
{
    const struct runtime *runtime = word_runtime(word);
    const struct call *call = NULL;
    uint64_t likeness = runtime->likeness ? runtime->likeness(&word->frame) : 0;
    if (s && s->is_found)
        call = calls_keep(t->calls, &s->name, runtime->has_changed);
    if (!call)
        return call_like(t, likeness);
    charge(t, call);
    keep_like(t, likeness, word);
    return call;
}

/* What a word is to be called, held by its table; `s` NULL: it was not looked for. */
static const struct call *found_call(struct word *word, const struct sought *s)
{
    struct word_table *t = word->table;
    const struct call *has = word_call(word);
    if (has && (!s || s->is_same || vec_reserve(&t->former, (uint64_t)t->former.n + 1) < 0))
        return has;
    const struct call *found = keep_found(t, word, s);
    if (has && found != has)
        t->former.p[t->former.n++] = has;
    else if (has)
        call_let_go(t->calls, found); /* it has it already */
    return found;
}

/* Under the lock: the first word that waits, and others of its process and runtime. How many. */
static uint32_t take_words(struct words *w, struct word *ret[TOGETHER])
{
    uint32_t n = 0;
    if (w->next == w->taken.n) {
        vec_release(&w->taken);
        w->taken = w->asked;
        memset(&w->asked, 0, sizeof w->asked);
        w->next = 0;
    }
    const uint32_t end = w->next + min_of(w->taken.n - w->next, WAITING);
    for (uint32_t i = w->next; i < end && n < TOGETHER; i++) {
        struct word *word = w->taken.p[i];
        if (!word ||
            (n > 0 && (word->table != ret[0]->table || word->frame.runtime != ret[0]->frame.runtime)))
            continue;
        ret[n++] = word;
        w->taken.p[i] = NULL;
    }
    while (w->next < w->taken.n && !w->taken.p[w->next])
        w->next++;
    return n;
}

/* Finds names of words; of those that have one, whether they are still so called. How many have one. */
static uint32_t find_names(struct words *w, struct word *const *word, uint32_t n)
{
    uint32_t named = 0;
    struct finding *f = find(w, word, n);
    for (uint32_t i = 0; i < n; i++) {
        const struct call *found = found_call(word[i], f && f->sought[i].is_done ? &f->sought[i] : NULL);
        atomic_store_explicit(&word[i]->call, (uintptr_t)found, memory_order_release);
        table_let_go(word[i]->table); /* which words_ask held for us */
        named += found != NULL;
    }
    if (f)
        forget_finding(&f->errand);
    return named;
}

static void *run(void *argument)
{
    struct words *w = argument;
    struct word *word[TOGETHER];
    if (w->options.begin)
        w->options.begin();
    pthread_mutex_lock(&w->lock);
    while (!w->stopping) {
        uint32_t n = take_words(w, word);
        pthread_mutex_unlock(&w->lock);
        uint32_t named = n ? find_names(w, word, n) : 0;
        if (n == 0)
            close_table(w); /* a descriptor keeps a process's memory */
        pthread_mutex_lock(&w->lock);
        w->answered += n;
        w->named += named;
        if (n)
            pthread_cond_broadcast(&w->answered_some);
        else if (w->asked.n == 0 && !w->stopping)
            pthread_cond_wait(&w->wake, &w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    close_table(w);
    return NULL;
}

int words_new(struct words **ret, const struct words_options *options)
{
    struct words *w = calloc(1, sizeof *w);
    if (!w)
        return -ENOMEM;
    w->options = *options;
    w->calls = calls_new();
    w->memory = -1;
    ledger_init(&w->ledger, LEDGER_SAVED);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    pthread_cond_init(&w->answered_some, NULL);
    int r = w->calls ? thread_begin(&w->thread, NULL, "words", run, w) : -ENOMEM;
    if (r < 0) {
        if (w->calls)
            calls_let_go(w->calls);
        free(w);
        return r;
    }
    *ret = w;
    return 0;
}

struct words *words_free(struct words *w)
{
    if (!w)
        return NULL;
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    for (uint32_t i = w->next; i < w->taken.n; i++)
        if (w->taken.p[i])
            table_let_go(w->taken.p[i]->table);
    for (uint32_t i = 0; i < w->asked.n; i++)
        table_let_go(w->asked.p[i]->table);
    for (uint32_t i = 0; i < w->tables.n; i++)
        table_let_go(w->tables.p[i]);
    vec_release(&w->taken);
    vec_release(&w->asked);
    vec_release(&w->tables);
    calls_let_go(w->calls);
    pthread_cond_destroy(&w->wake);
    pthread_cond_destroy(&w->answered_some);
    pthread_mutex_destroy(&w->lock);
    free(w);
    return NULL;
}

/* Gives no more words of a table out; the last table takes its place. */
static void drop(struct words *w, uint32_t i)
{
    struct word_table *t = w->tables.p[i];
    w->n -= t->n;
    t->n_leaving = (int64_t)atomic_load(&t->n_text);
    calls_leave(t->calls, t->n_leaving);
    table_let_go(t);
    w->tables.p[i] = w->tables.p[w->tables.n - 1];
    w->tables.n--;
}

void words_end(struct words *w, uint32_t pid, uint64_t start)
{
    for (uint32_t i = 0; i < w->tables.n; i++)
        if (w->tables.p[i]->of.pid == pid && w->tables.p[i]->of.start == start)
            drop(w, i--);
}

void words_sweep(struct words *w, uint64_t now)
{
    for (uint32_t i = 0; i < w->tables.n; i++)
        if (now - w->tables.p[i]->used > WORDS_IDLE_NS)
            drop(w, i--);
}

/* The table with most text of the user's whose tables have most. */
static uint32_t with_most_text(const struct words *w)
{
    struct holdings text = {0};
    size_t most_n = 0;
    uint32_t most = 0;
    for (uint32_t i = 0; i < w->tables.n; i++)
        holdings_add(&text, holder_of(w->tables.p[i]->of.user), atomic_load(&w->tables.p[i]->n_text));
    for (uint32_t i = 0; i < w->tables.n; i++) {
        size_t n = atomic_load(&w->tables.p[i]->n_text);
        if (holder_of(w->tables.p[i]->of.user) == text.most && n > most_n) {
            most = i;
            most_n = n;
        }
    }
    return most;
}

/* What is dropped goes with the windows that have words of it: calls_size is without it at once. */
static void make_room(struct words *w)
{
    while (w->tables.n > 0 && calls_size(w->calls) >= WORDS_TEXT_MAX)
        drop(w, with_most_text(w));
    uint32_t most = 0;
    for (uint32_t i = 1; i < w->tables.n; i++)
        if (w->tables.p[i]->n > w->tables.p[most]->n)
            most = i;
    if (w->n >= WORDS_MAX && w->tables.n > 0)
        drop(w, most);
}

static bool is_full(const struct word_table *t)
{
    return t->n >= WORDS_TABLE_MAX || atomic_load(&t->n_text) >= WORDS_TABLE_TEXT;
}

/* The table of a process with room for one more word. NULL: memory is out. */
static struct word_table *table_of(struct words *w, const struct words_process *of)
{
    make_room(w);
    for (uint32_t i = 0; i < w->tables.n; i++) {
        if (w->tables.p[i]->of.serial != of->serial)
            continue;
        if (!is_full(w->tables.p[i]))
            return w->tables.p[i];
        drop(w, i);
        break;
    }
    struct word_table *t = calloc(1, sizeof *t);
    if (!t || vec_append(&w->tables, t) < 0) {
        free(t);
        return NULL;
    }
    t->of = *of;
    t->calls = calls_hold(w->calls);
    t->held = 1;
    return t;
}

static struct word *word_of(struct words *w, struct word_table *t, const struct sample_frame *frame)
{
    struct bytes key = bytes_of(frame, sizeof *frame);
    struct hash_at at = hash_table_at(&t->by_frame, hash_bytes(key, hash_seed()));
    for (uint32_t i; (i = hash_table_next(&t->by_frame, &at)) != HASH_NONE;)
        if (memcmp(&word_at(t, i)->frame, frame, sizeof *frame) == 0)
            return word_at(t, i);
    if (t->n == t->block.n * BLOCK_WORDS) {
        struct word *block = malloc(BLOCK_WORDS * sizeof *block);
        if (!block || vec_append(&t->block, block) < 0) {
            free(block);
            return NULL;
        }
    }
    if (hash_table_add(&t->by_frame, at, t->n) < 0)
        return NULL;
    struct word *word = word_at(t, t->n++);
    *word = (struct word){.table = t, .frame = *frame};
    w->n++;
    return word;
}

struct word *words_ask(struct words *w, const struct words_process *of, const struct sample_frame *frame,
                       uint64_t now)
{
    struct word_table *t = table_of(w, of);
    struct word *word = t ? word_of(w, t, frame) : NULL;
    if (!word)
        return NULL;
    t->used = now;
    atomic_store_explicit(&t->thread, of->thread, memory_order_relaxed);
    atomic_fetch_add(&t->held, 1);
    uintptr_t call = atomic_load_explicit(&word->call, memory_order_relaxed);
    if (call & ASKED || (call && !word_runtime(word)->has_changed))
        return word;
    pthread_mutex_lock(&w->lock);
    int r = vec_append(&w->asked, word);
    if (r == 0) {
        atomic_fetch_or_explicit(&word->call, ASKED, memory_order_relaxed);
        atomic_fetch_add(&t->held, 1);
        w->n_asked++;
    }
    pthread_mutex_unlock(&w->lock);
    if (r < 0) {
        table_let_go(t);
        return NULL;
    }
    w->has_asked |= !call; /* else it has time */
    return word;
}

void words_go(struct words *w)
{
    if (!w->has_asked)
        return;
    w->has_asked = false;
    autolock(&w->lock);
    pthread_cond_signal(&w->wake);
}

void words_settle(struct words *w)
{
    const uint64_t until = clock_monotonic() + WORDS_SETTLE_NS;
    autolock(&w->lock);
    const uint64_t asked = w->n_asked;
    pthread_cond_signal(&w->wake);
    while (w->answered < asked && !w->stopping && condition_wait(&w->answered_some, &w->lock, until))
        ;
}

struct words_counts words_counts(struct words *w)
{
    autolock(&w->lock);
    return (struct words_counts){.processes = w->tables.n,
                                 .words = w->n,
                                 .text = calls_size(w->calls),
                                 .named = w->named,
                                 .failed = w->answered - w->named};
}
