/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk's addresses are code of the process as it was when the sample was taken, some hundred microseconds
 * ago or, on a machine with more to do than CPUs, some milliseconds. What the walk went through itself is
 * certain, and mostly where it goes on. Beyond that the mappings that the kernel has now are asked for; they
 * count only if those that the walk went through are still among them; else the process has ended or begun
 * another program, and what the walk went through is all there is to go by.
 */
#include "sender/run/resumer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/base/vec.h"
#include "sender/foreign/errand.h"
#include "sender/foreign/open.h"
#include "sender/procs/procs.h"
#include "sender/runtimes/runtime.h"
#include "sender/unwind/rest.h"

/* Processes whose mappings are remembered while they do not change, and mappings looked at of one. */
#define SEEN_MAX     8u
#define MAPPINGS_MAX 4096u

/* Where the kernel tells of one mapping at a time, so many of a process are remembered, for their files. */
#define ASKED_MAX 64u

/* Of those, what this walk was told last: most frames are in the mapping of the one before. */
#define TOLD_MAX 16u
_Static_assert(UNWIND_REST_WAYS + 1 <= MAPS_ASK_MAX, "all are asked for at once");

/* A process's code, as the kernel said. */
struct seen {
    uint32_t pid, changes;
    uint64_t start, turn;
    VEC(struct sample_file)
    mappings;      /* all as of `changes`; or, where one is asked for at a time, some that were */
    uint32_t last; /* of them, the one used last: likely the next */
};

struct resumer {
    struct sampler *sampler;
    struct loader *loader;
    struct opener *opener;
    struct seen seen[SEEN_MAX];
    uint64_t turn;
    /* The walk that is being ended: the record as it will go back. */
    const struct unwind_rest *rest;
    struct allowance *share; /* the process's, of its user's */
    struct seen *process;
    uint32_t folder;              /* procs_folder */
    int maps;                     /* the process's, to ask for one mapping at a time; -1: not open */
    struct region told[TOLD_MAX]; /* what came of that in this walk: */
    uint32_t n_told;              /* the last of so many */
    bool cannot_ask;              /* this kernel */
    bool has_mappings;            /* the process's, as of the walk or later */
    bool knows_mappings;          /* what is not among them is no code */
    struct sample_file mapping;   /* of the address whose rule was asked for last; end 0: none, then: */
    const struct unwind_mapping *pending; /* where it was, in a file that is not known; NULL: not known */
    const uint64_t *ahead;                /* words of runtimes that are to be put where their frames are */
    uint32_t n_ahead;
    bool has_place, is_told; /* the runtime's, in `place`; the first frame is in the record already */
    uint64_t last;           /* the address of the frame that the walk came to last */
    struct runtime_place place;
    uint32_t generator;             /* whose code is in no file; RUNTIME_GENERATED: not looked for yet */
    struct runtime_place generated; /* its */
    int memory;                     /* then the process's, */
    struct source_pages pages;      /* and what was read of it */
    struct sample_head head;
    uint64_t body[SAMPLE_KERNEL_MAX + SAMPLE_USER_MAX * SAMPLE_FRAME_WORDS + CONTEXT_BYTES_MAX / 8];
};

struct resumer *resumer_new(struct sampler *sampler, struct loader *loader, struct opener *opener)
{
    struct resumer *r = calloc(1, sizeof *r);
    if (r) {
        r->sampler = sampler;
        r->loader = loader;
        r->opener = opener;
    }
    return r;
}

struct resumer *resumer_free(struct resumer *r)
{
    for (uint32_t i = 0; r && i < SEEN_MAX; i++)
        vec_release(&r->seen[i].mappings);
    free(r);
    return NULL;
}

static bool on_mapping(void *user, const struct sample_file *mapping)
{
    struct seen *p = user;
    return p->mappings.n < MAPPINGS_MAX && vec_append(&p->mappings, *mapping) == 0;
}

static const struct sample_file *mapping_of(struct seen *p, uint64_t address)
{
    for (uint32_t i = 0; i < p->mappings.n; i++) {
        const struct sample_file *m = &p->mappings.p[(p->last + i) % p->mappings.n];
        if (address >= m->start && address < m->end) {
            p->last = (p->last + i) % p->mappings.n;
            return m;
        }
    }
    return NULL;
}

/* Where the kernel has no iterator over them. */
static void read_mappings_from_proc(struct resumer *r, struct seen *p)
{
    __typeof__(p->mappings) before = p->mappings;
    memset(&p->mappings, 0, sizeof p->mappings);
    (void)opener_mappings(r->opener, r->folder, before.p, before.n, on_mapping, p);
    vec_release(&before);
}

/* To read a process's mappings takes some 50 µs, and 25 ms where it has as many as it may (vm.max_map_count):
 * its share of its user's allowance pays. Without any walks go by what they went through. */
static void read_mappings(struct resumer *r, struct seen *p, const struct sample_head *head)
{
    uint32_t n_before = p->mappings.n;
    vec_clear(&p->mappings);
    p->last = 0;
    p->changes = head->changes;
    if (!allowance_take(r->share, 0))
        return;
    uint64_t begun = clock_thread();
    if (sampler_files_of(r->sampler, r->folder, r->rest->user, on_mapping, p) ==
        -EOPNOTSUPP) { /* what is not there is no code */
        p->mappings.n = n_before;
        read_mappings_from_proc(r, p);
    }
    allowance_charge(r->share, ALLOWANCE_OF_NS(clock_thread() - begun));
}

/* Whether a file may be that of a mapping that the walk went through: by its inode, as its time may be
 * another by now (key.h), and its device another here (is_layered of opener.c). Of one that is pending
 * is_pending_at looks at all. Moved code is in no file. */
static bool may_be_of(const struct resumer *r, const struct unwind_mapping *way, uint64_t inode)
{
    const struct unwind_key *key = tables_key(r->loader->tables, way->serial);
    return !key || !inode || ((key->inode ^ inode) & FOREIGN_INODE_BITS) == 0;
}

/* Whether a process's mappings still are those that the walk went through: it may have begun another program.
 */
static bool are_those(const struct resumer *r, struct seen *p)
{
    for (uint32_t i = 0; i < UNWIND_REST_WAYS; i++) {
        const struct unwind_mapping *way = &r->rest->way[i];
        if (!(r->rest->ways >> i & 1) || !way->serial)
            continue; /* generated code comes and goes */
        const struct sample_file *m = mapping_of(p, way->start);
        if (!m || m->start != way->start || m->end - m->start != way->length ||
            !may_be_of(r, way, m->key.inode))
            return false;
    }
    return true;
}

/* A sample's process. *is_new: its samples should be read while it is there. */
static struct seen *see(struct resumer *r, const struct sample_head *head, bool *is_new)
{
    struct seen *p = &r->seen[0];
    for (uint32_t i = 0; i < SEEN_MAX; i++) {
        struct seen *other = &r->seen[i];
        if (other->pid == head->pid && other->start == head->start) {
            p = other;
            break;
        }
        if (other->turn < p->turn)
            p = other;
    }
    p->turn = ++r->turn;
    *is_new = p->pid != head->pid || p->start != head->start;
    if (*is_new) {
        vec_clear(&p->mappings);
        p->pid = head->pid;
        p->start = head->start;
        p->changes = 0;
    }
    return p;
}

static const struct region *remember(struct resumer *r, const struct region *region)
{
    struct region *place = &r->told[r->n_told++ % TOLD_MAX];
    *place = *region;
    return place;
}

/* Opens the process's mappings, to ask for one at a time, and asks whether those that the walk went through
 * still are there; with them, as an errand costs more than ten answers, for others of the process that walks
 * have come to. False: this kernel cannot, or they are not to be had. */
static bool open_mappings(struct resumer *r)
{
    struct maps_asked asked[MAPS_ASK_MAX] = {{.address = r->rest->at.ip}};
    const struct unwind_mapping *way[MAPS_ASK_MAX];
    uint32_t n_ways = 1, n;
    if (r->cannot_ask || !allowance_take(r->share, 0))
        return false;
    for (uint32_t i = 0; i < UNWIND_REST_WAYS; i++) {
        way[n_ways] = &r->rest->way[i];
        if (!(r->rest->ways >> i & 1) || !way[n_ways]->serial)
            continue; /* generated code comes and goes */
        asked[n_ways].address = way[n_ways]->start;
        n_ways++;
    }
    n = n_ways;
    for (uint32_t i = r->process->mappings.n; i-- > 0 && n < MAPS_ASK_MAX; n++)
        asked[n].address = r->process->mappings.p[i].start;
    if (maps_ask(&r->maps, r->folder, r->rest->user, asked, n) < 0)
        return false;
    r->cannot_ask = asked[0].found == MAPS_CANNOT;
    r->knows_mappings = true;
    for (uint32_t i = 0; i < n; i++) {
        const struct region *now = &asked[i].region;
        bool is_there = asked[i].found == 0;
        if (is_there)
            (void)remember(r, now);
        if (i > 0 && i < n_ways &&
            (!is_there || now->start != way[i]->start || now->end - now->start != way[i]->length ||
             !may_be_of(r, way[i], now->inode)))
            r->knows_mappings = false;
    }
    if (r->cannot_ask)
        close(take_fd(&r->maps));
    return !r->cannot_ask;
}

/* What the kernel side does not know by the key that it has for it is not remembered, either: a file that has
 * lost its last name, or was written to, has another key since then, where it is mapped as it was. */
static void forget_pending(struct seen *p, const struct unwind_rest *rest)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < p->mappings.n; i++) {
        bool is_pending = false;
        for (uint32_t j = 0; j < UNWIND_REST_WAYS; j++)
            is_pending |= (rest->ways >> j & 1) && rest->way[j].is_pending &&
                          rest->way[j].start == p->mappings.p[i].start;
        if (!is_pending)
            p->mappings.p[kept++] = p->mappings.p[i];
    }
    if (kept < p->mappings.n)
        p->changes = 0;
    p->mappings.n = kept;
}

/* Finds out how to know of the mappings of the sample's process: by asking for one at a time; else they are
 * all asked for, anew if they have changed, and none are known if it is not the program any more that it was.
 * Once a walk. */
static void need_mappings(struct resumer *r)
{
    struct seen *p = r->process;
    if (r->has_mappings)
        return;
    r->has_mappings = true;
    forget_pending(p, r->rest);
    if (open_mappings(r))
        return;
    if (!r->head.changes || p->changes != r->head.changes || !are_those(r, p)) {
        read_mappings(r, p, &r->head);
        if (!are_those(r, p))
            vec_clear(&p->mappings);
    }
    r->knows_mappings = p->mappings.n > 0;
}

static const struct sample_file *described(const struct seen *p, const struct region *region)
{
    for (uint32_t i = 0; i < p->mappings.n; i++)
        if (opener_is_described(region, &p->mappings.p[i]))
            return &p->mappings.p[i];
    return NULL;
}

/* The file of a mapping that is there now: one that was remembered, else it is looked at. False: it cannot
 * be.
 */
static bool take_mapping(struct resumer *r, const struct region *region)
{
    struct seen *p = r->process;
    const struct sample_file *known = described(p, region);
    if (!known && opener_describe(r->opener, r->folder, region, &r->mapping)) {
        if (p->mappings.n >= ASKED_MAX)
            vec_clear(&p->mappings);
        (void)vec_append(&p->mappings, r->mapping); /* not remembered, it is looked at again */
        return true;
    }
    if (!known) {
        read_mappings(r, p, &r->head);
        known = described(p, region);
    }
    if (known)
        r->mapping = *known;
    return known != NULL;
}

/* What the kernel says of an address; NULL: there is no code, or no process any more. */
static const struct region *ask(struct resumer *r, uint64_t address)
{
    struct maps_asked asked = {.address = address};
    for (uint32_t i = 0; i < min_of(r->n_told, TOLD_MAX); i++)
        if (address >= r->told[i].start && address < r->told[i].end)
            return &r->told[i];
    if (maps_ask(&r->maps, r->folder, r->rest->user, &asked, 1) < 0)
        return NULL;
    if (asked.found == MAPS_GONE)
        r->knows_mappings = false;
    return asked.found == 0 ? remember(r, &asked.region) : NULL;
}

/* The mapping at an address, asked for. False: there is none, or the process is not the program any more that
 * it was. */
static bool ask_mapping(struct resumer *r, uint64_t address)
{
    uint64_t begun = clock_thread();
    const struct region *now = r->knows_mappings ? ask(r, address) : NULL;
    bool is_code = now && take_mapping(r, now);
    allowance_charge(r->share, ALLOWANCE_OF_NS(clock_thread() - begun));
    return is_code;
}

/* Where an address is in code as the kernel says now. */
static bool find_code_now(struct resumer *r, uint64_t address)
{
    need_mappings(r);
    if (r->maps >= 0)
        return ask_mapping(r, address);
    const struct sample_file *now = mapping_of(r->process, address);
    if (now)
        r->mapping = *now;
    return now != NULL;
}

/* Whether what there is now is what the walk met before its file was known; another one may be mapped there.
 */
static bool is_pending_at(const struct resumer *r, const struct unwind_mapping *way)
{
    const struct sample_file *m = &r->mapping;
    return m->start == way->start && m->end - m->start == way->length &&
           m->offset == way->bias + way->start && opener_is_marked(r->opener, m, way->serial);
}

/* Where an address is in code: as the walk knew, or, where it has not been, as the kernel says now. */
static bool find_code(struct resumer *r, uint64_t address)
{
    r->pending = NULL;
    for (uint32_t i = 0; i < UNWIND_REST_WAYS; i++) {
        const struct unwind_mapping *way = &r->rest->way[i];
        const struct unwind_key *key = tables_key(r->loader->tables, way->serial);
        if (!(r->rest->ways >> i & 1) || address - way->start >= way->length)
            continue;
        r->pending = way->is_pending ? way : NULL;
        if (way->is_pending && find_code_now(r, address) && is_pending_at(r, way))
            return true;
        key = way->is_pending ? tables_marked(r->loader->tables, way->serial) : key;
        if (!key && r->pending)
            return false;
        if (!key)
            continue;
        r->mapping = (struct sample_file){.pid = r->folder,
                                          .key = *key,
                                          .start = way->start,
                                          .end = way->start + way->length,
                                          .offset = way->bias + way->start};
        return true;
    }
    return find_code_now(r, address);
}

static int rest_rule(void *user, uint64_t address, struct unwind_rule *ret)
{
    struct resumer *r = user;
    const struct sample_file *m = &r->mapping;
    *ret = (struct unwind_rule){0};
    if (!find_code(r, address)) {
        r->mapping = (struct sample_file){0};
        return r->knows_mappings && !r->pending ? -1 : 1;
    }
    if (m->key.inode == 0 && m->key.device)
        return 0; /* generated code */
    struct whereabouts at = {r->opener, &m->key, r->folder, m->start, m->end, ""};
    struct loader_file file = {.key = &m->key, .user = r->rest->user, .open = opener_open, .of = &at};
    return loader_rule(r->loader, &file, address - m->start + m->offset, ret) != 0;
}

static void put(struct resumer *r, const struct sample_frame *frame)
{
    memcpy(&r->body[r->head.n_kernel + r->head.n_user++ * SAMPLE_FRAME_WORDS], frame, sizeof *frame);
}

/* Puts the words that stand for a frame. False: there are none. */
static bool put_words(struct resumer *r)
{
    bool has_some = false;
    while (r->n_ahead > 0) {
        struct sample_frame word;
        memcpy(&word, r->ahead, sizeof word);
        r->ahead += SAMPLE_FRAME_WORDS;
        r->n_ahead--;
        if (!word.where)
            break;
        if (r->head.n_user < SAMPLE_USER_MAX)
            put(r, &word);
        has_some = true;
    }
    return has_some;
}

/* Drops words that stand for a frame which has called r->last, if theirs is yet to come. */
static void drop_words_to_come(struct resumer *r, const struct runtime *runtime)
{
    struct sample_frame end;
    for (uint32_t i = 0; i < r->n_ahead && runtime->is_to_come; i++) {
        memcpy(&end, r->ahead + i * SAMPLE_FRAME_WORDS, sizeof end);
        if (end.where)
            continue;
        if (runtime->is_to_come(&end, r->last)) {
            r->ahead += (i + 1) * SAMPLE_FRAME_WORDS;
            r->n_ahead -= i + 1;
        }
        break;
    }
}

/* What stands for the file that the walk is in, which has no tables. */
static uint32_t mark_here(const struct resumer *r)
{
    if (!r->mapping.end)
        return r->pending ? r->pending->serial : SAMPLE_FILE_LOST;
    return r->mapping.key.inode ? unwind_mark(&r->mapping.key) : 0;
}

static bool rest_frame(void *user, uint64_t address, uint8_t cfa)
{
    struct resumer *r = user;
    const struct unwind_file *file = r->mapping.end ? tables_file(r->loader->tables, &r->mapping.key) : NULL;
    const struct runtime *runtime = r->has_place ? runtime_of(r->place.runtime) : NULL;
    bool has_words = runtime && !r->is_told && runtime->stands_for(&r->place, address);
    if (has_words)
        drop_words_to_come(r, runtime);
    r->last = address;
    if (r->is_told) {
        r->is_told = false;
        return true;
    }
    if (r->head.n_user >= SAMPLE_USER_MAX)
        return false;
    if (has_words && put_words(r))
        return true;
    if (runtime && r->n_ahead > 0 && runtime->is_beside && runtime->is_beside(&r->place, address))
        return true;
    struct sample_frame frame = {.kind = SAMPLE_FRAME_CODE,
                                 .runtime = cfa,
                                 .where = address,
                                 .file = file ? file->serial : mark_here(r)};
    uint64_t bias = r->mapping.end ? r->mapping.offset - r->mapping.start : r->pending ? r->pending->bias : 0;
    if (frame.file)
        frame.extra = (uint16_t)((address + bias) >> UNWIND_PAGE_BITS);
    put(r, &frame);
    return true;
}

/* The process's memory, opened when it is asked for; -1: it is gone, or another's. */
static int memory_of(struct resumer *r)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/mem", r->folder);
    if (r->memory < 0)
        r->memory = errand_open(path, 0, r->rest->user);
    return r->memory;
}

/* As begin_by_hand of bpf/walk.bpf.h. */
static void rest_begin(void *user, uint64_t ip)
{
    struct resumer *r = user;
    uint64_t before, *at = &r->body[r->head.n_kernel + (r->head.n_user - 1) * SAMPLE_FRAME_WORDS];
    struct sample_frame first;
    if (r->head.n_user == 0 || ip - r->mapping.start >= r->mapping.end - r->mapping.start || memory_of(r) < 0)
        return;
    struct source memory = source_process(r->memory, r->rest->user, r->share, &r->pages);
    memcpy(&first, at, sizeof first);
    if (first.kind != SAMPLE_FRAME_CODE || first.where != ip - 1 ||
        !source_read(&memory, ip - sizeof before, &before, sizeof before) || unwind_ends_in_call(before))
        return;
    first.where = ip;
    first.extra =
        first.file ? (uint16_t)((ip - r->mapping.start + r->mapping.offset) >> UNWIND_PAGE_BITS) : 0;
    memcpy(at, &first, sizeof first);
}

/* Which runtime generates code in this process: of several the last one, as in the kernel. */
static void find_generator(struct resumer *r)
{
    r->generator = RUNTIME_NATIVE;
    for (uint32_t i = RUNTIME_TAGS; i-- > 0 && r->generator == RUNTIME_NATIVE;)
        if (runtime_of(i)->step && sampler_runtime_of(r->sampler, r->head.pid, i, &r->generated) &&
            r->generated.start == r->head.start)
            r->generator = i;
    if (r->generator != RUNTIME_NATIVE && memory_of(r) < 0)
        r->generator = RUNTIME_NATIVE;
}

/* Goes through code that a runtime generates in this process, or that has come with it, as the runtime does.
 * Of the latter rows may be known by its instructions, but not whose function it is running. */
static int rest_step(void *user, struct unwind_registers *at, bool has_rule, rest_load_fn load, void *of)
{
    struct resumer *r = user;
    struct sample_frame word;
    const struct sample_file *m = &r->mapping;
    uint64_t address = at->ip - (at->is_return != 0);
    const struct unwind_file *file = m->end && m->key.inode ? tables_file(r->loader->tables, &m->key) : NULL;
    if (has_rule && !(file && runtime_of(file->runtime)->has_builtins))
        return 1;
    if (r->generator == RUNTIME_GENERATED)
        find_generator(r);
    if (r->generator == RUNTIME_NATIVE || r->head.n_user >= SAMPLE_USER_MAX ||
        (m->key.inode ? !file || file->runtime != r->generator : !m->key.device))
        return 1;
    struct source memory = source_process(r->memory, r->rest->user, r->share, &r->pages);
    struct sample_frame ahead = {0};
    if (r->n_ahead > 0)
        memcpy(&ahead, r->ahead + (r->n_ahead - 1) * SAMPLE_FRAME_WORDS, sizeof ahead);
    struct runtime_process process = {.pid = r->head.pid,
                                      .start = r->head.start,
                                      .memory = &memory,
                                      .offset = file ? address - m->start + m->offset : 0,
                                      .place = &r->generated,
                                      .ahead = ahead.runtime == r->generator ? &ahead : NULL};
    struct runtime_stack stack = {load, of};
    if (!runtime_of(r->generator)->step(&process, &stack, at, &word))
        return 1;
    if (word.kind == SAMPLE_FRAME_CODE)
        (void)rest_frame(r, address, UNWIND_CFA_RBP);
    else if (word.kind == SAMPLE_FRAME_WORD && word.where)
        put(r, &word);
    else if (word.kind == SAMPLE_FRAME_WORD)
        (void)put_words(r);
    r->is_told = false;
    return 0;
}

/* Puts the words that no frame has come for: all that is known where the walk was cut, and at its root those
 * of stacks below. */
static void put_left(struct resumer *r)
{
    const struct runtime *runtime = r->has_place ? runtime_of(r->place.runtime) : NULL;
    if (!runtime ||
        (r->head.user_end == UNWIND_END_ROOT && !(runtime->goes_on && runtime->goes_on(&r->place, r->last))))
        return;
    while (r->n_ahead > 0)
        (void)put_words(r);
}

/* The address of the frame that is in the record last; 0: there is none. */
static uint64_t last_told(const struct resumer *r)
{
    struct sample_frame last = {0};
    if (r->head.n_user > 0)
        memcpy(&last, &r->body[r->head.n_kernel + (r->head.n_user - 1) * SAMPLE_FRAME_WORDS], sizeof last);
    return last.where;
}

/* Takes the words of what is to come off the record. */
static void take_ahead(struct resumer *r, const uint64_t *body)
{
    struct sample_frame first;
    r->is_told = r->rest->is_told;
    r->n_ahead = min_of((uint32_t)r->rest->n_ahead, r->head.n_user);
    r->head.n_user -= r->n_ahead;
    r->ahead = body + r->head.n_kernel + r->head.n_user * SAMPLE_FRAME_WORDS;
    r->has_place = false;
    if (r->n_ahead == 0)
        return;
    memcpy(&first, r->ahead, sizeof first);
    r->has_place = first.kind == SAMPLE_FRAME_WORD && runtime_of(first.runtime)->stands_for &&
                   sampler_runtime_of(r->sampler, r->head.pid, first.runtime, &r->place);
}

void resumer_rest(struct resumer *r, const struct sample_head *head, const uint64_t *body)
{
    bool is_new;
    uint64_t far;
    r->rest = sampler_rest(r->sampler, head);
    if (!r->rest)
        return;
    r->share = ledger_share(&r->loader->ledger, r->rest->user, head->pid, clock_monotonic());
    r->process = see(r, head, &is_new);
    r->folder = procs_folder("/proc", head->pid, head->tid);
    r->has_mappings = r->knows_mappings = false;
    r->maps = -1;
    r->n_told = 0;
    r->head = *head;
    r->head.kind = SAMPLE_STACK;
    memcpy(r->body, body, 8 * (r->head.n_kernel + SAMPLE_USER_WORDS(&r->head)));
    take_ahead(r, body);
    r->generator = RUNTIME_GENERATED;
    r->memory = -1;
    r->pages.n = 0;
    uint32_t n_user = r->head.n_user;
    if (!r->is_told && n_user > 0)
        r->head.n_user--; /* the last one is said again, with what is known now */
    r->last = last_told(r);
    r->head.user_end = (uint16_t)rest_walk(
        r->rest, &(struct rest_walk){rest_rule, rest_frame, r, rest_step, rest_begin}, &far);
    cleanup_close(&r->memory);
    cleanup_close(&r->maps);
    put_left(r);
    if (far)
        sampler_far(r->sampler, head->tid, far, r->rest->at.sp);
    r->head.n_user = max_of(r->head.n_user, n_user);
    memcpy(r->body + r->head.n_kernel + SAMPLE_USER_WORDS(&r->head), record_context(head, body),
           head->n_context);
    sampler_return(r->sampler, &r->head, r->body, is_new);
}
