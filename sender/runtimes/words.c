/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table a process, which is counted by who holds one of its words: it goes when the last one does, and when
 * words_ask is not to give out more of it. The loop's thread alone makes tables and words; the words' thread
 * alone writes names and their text, which stay as long as the table. A word whose name has changed gets
 * another one; until then it has the one that it had.
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

enum state { WORD_NEW, WORD_ASKED, WORD_NAMED, WORD_FAILED };

struct word {
    struct word_table *table;
    struct word *next; /* of what is asked for */
    struct sample_frame frame;
    const struct runtime_name *_Atomic name; /* NULL: there is none */
    _Atomic uint32_t state;                  /* enum state */
};

struct word_table {
    struct words_process of;
    uint64_t used;
    _Atomic uint32_t held; /* its words, and itself by `tables` */
    struct hash_table by_frame;
    VEC(struct word *) word; /* by number there */
    struct arena words;
    /* The words' thread's. */
    struct intern texts;
    struct arena names;
    struct intern likenesses;
    VEC(const struct word *) like; /* by number in `likenesses`, one that has a name */
    _Atomic size_t n_text;
    char version[RUNTIME_TAGS][RUNTIME_VERSION_MAX]; /* there before the first name of the runtime's is */
};

struct words {
    struct words_options options;
    pthread_t thread;
    VEC(struct word_table *) tables;
    uint32_t n;     /* words in them */
    bool has_asked; /* for some that are new: the thread is to be woken */

    pthread_mutex_t lock;
    pthread_cond_t wake, answered_some;
    struct word *first, **last;
    uint64_t asked, answered, named;
    bool stopping;

    /* The thread's. */
    struct ledger ledger;
    struct word_table *open; /* whose memory and place these are; held */
    int memory;
    uint32_t runtime; /* of the place; 0: there is none */
    struct runtime_place place;
};

static void table_let_go(struct word_table *t)
{
    if (atomic_fetch_sub(&t->held, 1) > 1)
        return;
    hash_table_release(&t->by_frame);
    intern_release(&t->texts);
    intern_release(&t->likenesses);
    vec_release(&t->like);
    arena_release(&t->names);
    vec_release(&t->word);
    arena_release(&t->words);
    free(t);
}

const struct runtime_name *word_name(const struct word *word)
{
    return atomic_load_explicit(&word->name, memory_order_acquire);
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

static bool keep(struct word_table *t, struct bytes *text)
{
    uint32_t before = t->texts.n, number = intern_add(&t->texts, *text);
    if (number == INTERN_NONE)
        return false;
    if (t->texts.n != before)
        atomic_fetch_add(&t->n_text, text->n);
    *text = intern_get(&t->texts, number);
    return true;
}

/* Keeps a name, and those of what it was inlined into. NULL: memory is out. There are many: they have no mark
 * where their runtime does not ask for it. */
static const struct runtime_name *keep_name(struct word_table *t, const struct runtime_name *name,
                                            const struct runtime *runtime)
{
    const struct runtime_name *first = NULL, **at = &first;
    size_t size = runtime->has_changed ? sizeof *first : offsetof(struct runtime_name, mark);
    for (; name; name = name->caller) {
        struct runtime_name *kept = arena_alloc(&t->names, size);
        if (!kept)
            return NULL;
        memcpy(kept, name, size);
        if (!keep(t, &kept->name) || !keep(t, &kept->file))
            return NULL;
        atomic_fetch_add(&t->n_text, size);
        *at = kept;
        at = &kept->caller;
    }
    return first;
}

/* Keeps a word that has got its name for those that are like it, if it is the first one. */
static void keep_like(struct word_table *t, uint64_t likeness, const struct word *word)
{
    struct bytes key = bytes_of(&likeness, sizeof likeness);
    if (likeness && intern_find(&t->likenesses, key) == INTERN_NONE &&
        vec_reserve(&t->like, (uint64_t)t->like.n + 1) == 0 && intern_add(&t->likenesses, key) != INTERN_NONE)
        t->like.p[t->like.n++] = word;
}

/* The name of a word that is like this one. NULL: there is none. */
static const struct runtime_name *name_like(const struct word_table *t, uint64_t likeness)
{
    uint32_t number =
        likeness ? intern_find(&t->likenesses, bytes_of(&likeness, sizeof likeness)) : INTERN_NONE;
    return number != INTERN_NONE ? word_name(t->like.p[number]) : NULL;
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

static int64_t left_of(const struct allowance *a)
{
    int64_t left = INT64_MAX;
    for (; a; a = a->from)
        left = min_of(left, a->left);
    return left;
}

static struct finding *finding_new(const struct words *w, struct word *const *word, uint32_t n)
{
    const struct word_table *t = word[0]->table;
    struct finding *f = calloc(1, sizeof *f + n * sizeof *f->sought);
    if (!f)
        return NULL;
    *f = (struct finding){.errand = {.go = look, .forget = forget_finding}, .place = w->place, .n = n};
    snprintf(f->path, sizeof f->path, "%s/%u/mem", w->options.proc_root, t->of.pid);
    f->memory = (struct source){.fd = -1, .size = INT64_MAX, .allowance = &f->one};
    f->process = (struct runtime_process){
        .pid = t->of.pid, .start = t->of.start, .memory = &f->memory, .place = &f->place};
    for (uint32_t i = 0; i < n; i++) {
        const struct runtime_name *has = word_name(word[i]);
        struct sought *s = &f->sought[i];
        s->frame = word[i]->frame;
        s->name.file = BYTES_LIT("");
        s->has = has && word_runtime(word[i])->has_changed;
        if (s->has)
            s->mark = has->mark;
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
    f->all.left = left_of(share);
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

/* Gives a word the name that was found; NULL: it was not looked for. Whether it has one. */
static bool give_name(struct word *word, const struct sought *s)
{
    struct word_table *t = word->table;
    const struct runtime *runtime = word_runtime(word);
    const struct runtime_name *found = NULL;
    if (word_name(word) && (!s || s->is_same))
        return true;
    uint64_t likeness = runtime->likeness ? runtime->likeness(&word->frame) : 0;
    if (s && s->is_found)
        found = keep_name(t, &s->name, runtime);
    if (!found)
        found = name_like(t, likeness);
    atomic_store_explicit(&word->name, found, memory_order_release);
    if (found)
        keep_like(t, likeness, word);
    return found;
}

/* Under the lock: the first word that waits, and others of its process and runtime. How many. */
static uint32_t take_words(struct words *w, struct word *ret[TOGETHER])
{
    uint32_t n = 0;
    struct word **at = &w->first;
    for (uint32_t i = 0; *at && n < TOGETHER && i < WAITING; i++) {
        struct word *word = *at;
        if (n > 0 && (word->table != ret[0]->table || word->frame.runtime != ret[0]->frame.runtime)) {
            at = &word->next;
            continue;
        }
        ret[n++] = word;
        *at = word->next;
        if (!*at)
            w->last = at;
    }
    return n;
}

/* Finds names of words; of those that have one, whether they are still so called. How many have one. */
static uint32_t find_names(struct words *w, struct word *const *word, uint32_t n)
{
    uint32_t named = 0;
    struct finding *f = find(w, word, n);
    for (uint32_t i = 0; i < n; i++) {
        bool found = give_name(word[i], f && f->sought[i].is_done ? &f->sought[i] : NULL);
        atomic_store(&word[i]->state, found ? WORD_NAMED : WORD_FAILED);
        table_let_go(word[i]->table); /* which words_ask held for us */
        named += found;
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
        else if (!w->first && !w->stopping)
            pthread_cond_wait(&w->wake, &w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    close_table(w);
    return NULL;
}

int words_new(struct words **ret, const struct words_options *options)
{
    struct words *w = calloc(1, sizeof *w);
    pthread_condattr_t monotonic;
    if (!w)
        return -ENOMEM;
    w->options = *options;
    w->last = &w->first;
    w->memory = -1;
    ledger_init(&w->ledger, LEDGER_SAVED);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->answered_some, &monotonic);
    int r = thread_begin(&w->thread, NULL, run, w);
    if (r < 0) {
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
    for (struct word *word = w->first, *next; word; word = next) {
        next = word->next;
        table_let_go(word->table);
    }
    for (uint32_t i = 0; i < w->tables.n; i++)
        table_let_go(w->tables.p[i]);
    vec_release(&w->tables);
    pthread_cond_destroy(&w->wake);
    pthread_cond_destroy(&w->answered_some);
    pthread_mutex_destroy(&w->lock);
    free(w);
    return NULL;
}

/* Gives no more words of a table out; the last table takes its place. */
static void drop(struct words *w, uint32_t i)
{
    w->n -= w->tables.p[i]->word.n;
    table_let_go(w->tables.p[i]);
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

static void make_room(struct words *w)
{
    uint32_t most = 0;
    for (uint32_t i = 1; i < w->tables.n; i++)
        if (w->tables.p[i]->word.n > w->tables.p[most]->word.n)
            most = i;
    if (w->n >= WORDS_MAX && w->tables.n > 0)
        drop(w, most);
}

static bool is_full(const struct word_table *t)
{
    return t->word.n >= WORDS_TABLE_MAX || atomic_load(&t->n_text) >= WORDS_TABLE_TEXT;
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
    t->held = 1;
    return t;
}

static struct word *word_of(struct words *w, struct word_table *t, const struct sample_frame *frame)
{
    struct bytes key = bytes_of(frame, sizeof *frame);
    struct hash_at at = hash_table_at(&t->by_frame, hash_bytes(key, hash_seed()));
    for (uint32_t i; (i = hash_table_next(&t->by_frame, &at)) != HASH_NONE;)
        if (memcmp(&t->word.p[i]->frame, frame, sizeof *frame) == 0)
            return t->word.p[i];
    struct word *word = arena_calloc(&t->words, 1, sizeof *word);
    if (!word || vec_reserve(&t->word, (uint64_t)t->word.n + 1) < 0 ||
        hash_table_add(&t->by_frame, at, t->word.n) < 0)
        return NULL;
    word->table = t;
    word->frame = *frame;
    t->word.p[t->word.n++] = word;
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
    atomic_fetch_add(&t->held, 1);
    uint32_t state = atomic_load(&word->state);
    if (state == WORD_ASKED || (state == WORD_NAMED && !word_runtime(word)->has_changed))
        return word;
    atomic_store(&word->state, WORD_ASKED);
    atomic_fetch_add(&t->held, 1);
    word->next = NULL;
    pthread_mutex_lock(&w->lock);
    *w->last = word;
    w->last = &word->next;
    w->asked++;
    pthread_mutex_unlock(&w->lock);
    w->has_asked |= state != WORD_NAMED; /* else it has time */
    return word;
}

void words_go(struct words *w)
{
    if (!w->has_asked)
        return;
    w->has_asked = false;
    pthread_mutex_lock(&w->lock);
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

void words_settle(struct words *w)
{
    uint64_t until = clock_monotonic() + WORDS_SETTLE_NS;
    struct timespec at = {.tv_sec = (time_t)(until / NSEC_PER_SEC), .tv_nsec = (long)(until % NSEC_PER_SEC)};
    pthread_mutex_lock(&w->lock);
    uint64_t asked = w->asked;
    pthread_cond_signal(&w->wake);
    while (w->answered < asked && !w->stopping &&
           pthread_cond_timedwait(&w->answered_some, &w->lock, &at) == 0)
        ;
    pthread_mutex_unlock(&w->lock);
}

struct words_counts words_counts(struct words *w)
{
    pthread_mutex_lock(&w->lock);
    struct words_counts counts = {
        .processes = w->tables.n, .words = w->n, .named = w->named, .failed = w->answered - w->named};
    pthread_mutex_unlock(&w->lock);
    return counts;
}
