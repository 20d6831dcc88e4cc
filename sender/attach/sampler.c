/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/attach/sampler.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "sender/attach/parts.h"
#include "sender/attach/refusal.h"
#include "sender/foreign/errand.h"

/* Stacks that came back and wait for the next visit, four a second: some thousands. More are lost, and
 * counted. */
#define RETURNED_MAX (8u << 20)
/* Of what the kernel says of its functions, at a time. */
#define NAMES_PART 4096u

/* libbpf's last words: the only place where it says what it did not like. One sampler is opened at a time. */
static char last_words[256];

__attribute__((format(printf, 2, 0))) static int keep_words(enum libbpf_print_level level, const char *format,
                                                            va_list args)
{
    if (level == LIBBPF_WARN) {
        char line[sizeof last_words];
        vsnprintf(line, sizeof line, format, args);
        line[strcspn(line, "\n")] = 0;
        /* The first complaint is the cause; what follows is its echo. The one about RLIMIT_MEMLOCK is never
         * the cause: since 5.11 BPF memory is charged to the cgroup. (1.1's map file misspells the function
         * that would stop libbpf from trying.) */
        if (!*last_words && !strstr(line, "RLIMIT_MEMLOCK"))
            memcpy(last_words, line, sizeof line);
    }
    return 0;
}

void sampler_forget_words(void)
{
    *last_words = 0;
}

static int on_record(void *user, void *data, size_t n)
{
    struct sampler *s = user;
    if (sampler_record(&s->handler, data, n) < 0)
        s->malformed++; /* cannot happen with our own BPF program; never a reason to stop */
    return 0;
}

static int on_want(void *user, void *data, size_t n)
{
    struct sampler *s = user;
    (void)sampler_want(s->asked, s->n_rests, data, n);
    return 0;
}

int sampler_rule(struct sampler *s, const struct filter_rule *rule, bool is_there)
{
    int fd = bpf_map__fd(s->skel->maps.filters);
    int r = is_there ? bpf_map_update_elem(fd, &rule->key, &rule->verdict, BPF_ANY)
                     : bpf_map_delete_elem(fd, &rule->key);
    return r < 0 ? -errno : 0;
}

static int attach_one(struct bpf_program *program, struct bpf_link **link)
{
    if (bpf_program__fd(program) < 0)
        return 0; /* not loaded */
    *link = bpf_program__attach(program);
    return *link ? 0 : -errno;
}

static int attach_notices(struct sampler *s, const char **doing)
{
    *doing = "attaching to sched_process_exec, _fork and _exit";
    int r = attach_one(s->skel->progs.on_exec, &s->skel->links.on_exec);
    r = r < 0 ? r : attach_one(s->skel->progs.on_fork, &s->skel->links.on_fork);
    return r < 0 ? r : attach_one(s->skel->progs.on_exit, &s->skel->links.on_exit);
}

static int attach(struct sampler *s, const char **doing)
{
    *doing = "loading the BPF programs";
    int r = programs_load(s);
    if (r < 0)
        return r;
    *doing = "reading the BPF ring buffer";
    s->ring = ring_buffer__new(bpf_map__fd(s->skel->maps.ring), on_record, s, NULL);
    s->wants = ring_buffer__new(bpf_map__fd(s->skel->maps.wants), on_want, s, NULL);
    if (!s->ring || !s->wants)
        return -errno;
    struct epoll_event readable = {.events = EPOLLIN};
    s->returned_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->returned_fd < 0 ||
        epoll_ctl(ring_buffer__epoll_fd(s->ring), EPOLL_CTL_ADD, s->returned_fd, &readable) < 0)
        return -errno;
    return attach_notices(s, doing);
}

static int start_waits(struct sampler *s, const char **doing)
{
    struct sample *k = s->skel;
    *doing = "attaching to sched_switch";
    int r = attach_one(k->progs.on_sched_exit, &k->links.on_sched_exit);
    r = r < 0 ? r : attach_one(k->progs.on_switch, &k->links.on_switch);
    if (r < 0)
        return r;
    *doing = "attaching to block_rq_insert, _issue, _merge and _complete";
    r = attach_one(k->progs.on_block_complete, &k->links.on_block_complete);
    r = r < 0 ? r : attach_one(k->progs.on_block_merge, &k->links.on_block_merge);
    r = r < 0 ? r : attach_one(k->progs.on_block_insert, &k->links.on_block_insert);
    r = r < 0 ? r : attach_one(k->progs.on_block_issue, &k->links.on_block_issue);
    if (r < 0)
        return r;
    *doing = "attaching to sys_enter and sys_exit";
    r = attach_one(k->progs.on_lock_exit, &k->links.on_lock_exit);
    return r < 0 ? r : attach_one(k->progs.on_lock_enter, &k->links.on_lock_enter);
}

static int start(struct sampler *s, const char **doing)
{
    struct cpus online;
    int r = start_waits(s, doing);
    if (r < 0)
        return r;
    *doing = REFUSAL_PROBES;
    r = probes_attach(s);
    if (r < 0)
        return r;
    *doing = "opening a clock event on each CPU";
    r = cpus_online(&online);
    if (r < 0)
        return r;
    r = clocks_open(s, &online);
    /* One CPU that cannot is none too few; a counter that no CPU has is a mistake of who asks for it. */
    for (uint32_t i = 0; r < 0 && i < SAMPLE_SOURCES; i++) {
        enum kind_how how = s->options.kinds->at[i].how;
        bool is_any = how != KIND_CLOCK && how != KIND_EVENT;
        for (uint32_t j = 0; j < s->clocks.n; j++)
            is_any |= s->clocks.p[j].source == i;
        if (!is_any && how == KIND_EVENT) {
            snprintf(s->refused, sizeof s->refused, REFUSAL_COUNTER "%s", s->options.kinds->at[i].type);
            *doing = s->refused;
        }
        if (!is_any)
            return r;
    }
    return 0;
}

/* Takes one of the steps above and explains what refuses it. */
static int explained(struct sampler *s, int (*step)(struct sampler *, const char **), struct error *e)
{
    struct refusal_facts facts;
    const char *doing = "";
    *last_words = 0;
    libbpf_print_fn_t before = libbpf_set_print(keep_words);
    int r = step(s, &doing);
    libbpf_set_print(before);
    if (r >= 0)
        return 0;
    refusal_facts(&facts);
    refusal_explain(&facts, doing, r, last_words, e);
    return -r == ENOMEM ? r : SAMPLER_REFUSED; /* r is what the kernel said */
}

int sampler_open(struct sampler **ret, const struct sampler_options *options,
                 const struct sampler_handler *handler, struct error *e)
{
    struct sampler *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(e, -ENOMEM, "out of memory");
    pthread_mutex_init(&s->lock, NULL);
    s->returned_fd = -1;
    s->options = *options;
    s->handler = *handler;
    if (!s->options.kinds) {
        kinds_init(&s->only_clock, options->frequency);
        s->options.kinds = &s->only_clock;
    }
    int r = explained(s, attach, e);
    if (r != 0) {
        sampler_close(s);
        return r;
    }
    s->shards.near_fd = bpf_map__fd(s->skel->maps.unwind_near);
    s->shards.outer_fd = bpf_map__fd(s->skel->maps.unwind_shards);
    s->shards.files_fd = bpf_map__fd(s->skel->maps.unwind_files);
    s->shards.generation = (volatile bpf_u64 *)&s->skel->bss->unwind_generation;
    s->shards.additions = (volatile bpf_u64 *)&s->skel->bss->unwind_additions;
    *ret = s;
    return 0;
}

int sampler_start(struct sampler *s, struct error *e)
{
    return explained(s, start, e);
}

void sampler_tables(struct sampler *s, struct tables_backend *ret)
{
    *ret = (struct tables_backend){.page = (struct unwind_bucket *)s->skel->bss->unwind_pages,
                                   .rule = (struct unwind_rule *)s->skel->bss->unwind_rules,
                                   .used = s->skel->bss->unwind_used};
    shards_backend(&s->shards, ret);
}

/* What an iterator over all, or what `over` says, writes can be read from; -errno. */
static int open_iterator(const struct bpf_program *program, union bpf_iter_link_info *over)
{
    struct bpf_iter_attach_opts
        options; /* libbpf wants its padding to be zero, which LIBBPF_OPTS leaves open */
    memset(&options, 0, sizeof options);
    options.sz = sizeof options;
    options.link_info = over;
    options.link_info_len = over ? sizeof *over : 0;
    struct bpf_link *link = bpf_program__attach_iter(program, &options);
    if (!link)
        return -errno;
    int fd = bpf_iter_create(bpf_link__fd(link));
    bpf_link__destroy(link); /* the iterator holds the program */
    return fd;
}

int sampler_files_of(struct sampler *s, uint32_t pid, uint32_t owner,
                     bool (*file)(void *user, const struct sample_file *file), void *user)
{
    if (!s->options.features.mappings_by_task)
        return -EOPNOTSUPP;
    struct sample_file part[64];                             /* the kernel writes whole records */
    union bpf_iter_link_info whose = {.task = {.tid = pid}}; /* its first thread: all share one memory */
    autoclose int fd = open_iterator(s->skel->progs.dump_files, pid ? &whose : NULL);
    if (fd < 0)
        return fd;
    for (;;) {
        ssize_t n = errand_pread(fd, part, sizeof part, -1, owner);
        if (-n == EAGAIN || -n == EINTR)
            continue;
        if (n <= 0)
            return (int)n;
        for (size_t i = 0; i < (size_t)n / sizeof *part; i++)
            if (!file(user, &part[i]))
                return 0;
    }
}

int sampler_files(struct sampler *s, bool (*file)(void *user, const struct sample_file *file), void *user)
{
    return sampler_files_of(s, 0, UINT32_MAX, file, user);
}

/* Of some of SAMPLE_ASKED addresses at most; how many, or -errno. */
static int ask_names(struct sampler *s, const uint64_t *address, uint32_t n, struct buffer *ret)
{
    int n_lines = 0;
    memset(s->skel->bss->asked_names, 0, sizeof s->skel->bss->asked_names);
    memcpy(s->skel->bss->asked_names, address, n * sizeof *address);
    autoclose int fd = open_iterator(s->skel->progs.dump_names, NULL);
    if (fd < 0)
        return fd;
    for (;;) {
        uint8_t *to = buffer_cursor(ret, NAMES_PART);
        ssize_t got = to ? read(fd, to, NAMES_PART) : -1;
        if (got <= 0)
            return !to ? -ENOMEM : got < 0 ? -errno : n_lines;
        for (ssize_t i = 0; i < got; i++)
            n_lines += to[i] == '\n';
        ret->n += (size_t)got;
    }
}

int sampler_symbols(struct sampler *s, const uint64_t *address, uint32_t n, struct buffer *ret)
{
    for (uint32_t i = 0; i < n;) {
        int r = ask_names(s, address + i, min_of(n - i, SAMPLE_ASKED), ret);
        if (r <= 0)
            return r < 0 ? r : -EIO;
        i += (uint32_t)r;
    }
    return 0;
}

void sampler_stop(struct sampler *s)
{
    clocks_close(s);
    probes_detach(s);
    if (!s->skel)
        return;
    struct bpf_link **links[] = {&s->skel->links.on_exec,        &s->skel->links.on_fork,
                                 &s->skel->links.on_exit,        &s->skel->links.on_switch,
                                 &s->skel->links.on_sched_exit,  &s->skel->links.on_block_insert,
                                 &s->skel->links.on_block_issue, &s->skel->links.on_block_complete,
                                 &s->skel->links.on_block_merge, &s->skel->links.on_lock_enter,
                                 &s->skel->links.on_lock_exit};
    for (size_t i = 0; i < ARRAY_LEN(links); i++) {
        bpf_link__destroy(*links[i]);
        *links[i] = NULL;
    }
}

static void unmap_rests(struct sampler *s)
{
    if (s->rests.n)
        munmap((void *)s->rests.p, s->rests.n);
    s->rests = bytes_of(NULL, 0);
}

struct sampler *sampler_close(struct sampler *s)
{
    if (!s)
        return NULL;
    sampler_stop(s);
    vec_release(&s->clocks);
    ring_buffer__free(s->ring);
    ring_buffer__free(s->wants);
    shards_close(&s->shards);
    unmap_rests(s);
    if (s->returned_fd >= 0)
        close(s->returned_fd);
    buffer_release(&s->returned);
    pthread_mutex_destroy(&s->lock);
    sample__destroy(s->skel);
    free(s);
    return NULL;
}

int sampler_fd(const struct sampler *s)
{
    return ring_buffer__epoll_fd(s->ring);
}

/* Takes the stacks that came back. */
static struct buffer take_returned(struct sampler *s)
{
    eventfd_t n_wakes;
    (void)eventfd_read(s->returned_fd, &n_wakes);
    pthread_mutex_lock(&s->lock);
    struct buffer taken = s->returned;
    s->returned = (struct buffer){0};
    pthread_mutex_unlock(&s->lock);
    return taken;
}

static void hand_on(struct sampler *s, const struct buffer *taken)
{
    struct bytes left = buffer_bytes(taken);
    while (left.n > 0) {
        uint64_t n;
        memcpy(&n, left.p, sizeof n);
        on_record(s, (void *)(left.p + sizeof n), n);
        n = sizeof n + (n + 7) / 8 * 8;
        left = bytes_of(left.p + n, left.n - n);
    }
}

int sampler_drain(struct sampler *s)
{
    struct buffer returned = take_returned(s); /* what their processes are is in the ring: that first */
    int n = ring_buffer__consume(s->ring);
    hand_on(s, &returned);
    buffer_release(&returned);
    return n;
}

int sampler_wants_fd(const struct sampler *s)
{
    return ring_buffer__epoll_fd(s->wants);
}

int sampler_wants(struct sampler *s, const struct sampler_asked *asked)
{
    s->asked = asked;
    return ring_buffer__consume(s->wants);
}

/* The first ones are next when none is under way: they serve nearly all walks, and stay mapped. */
static void begin_again(struct sampler *s)
{
    __u64 turn = __atomic_load_n(&s->skel->bss->rest_turn, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < s->n_rests; i++)
        if (__atomic_load_n(&s->skel->bss->rest_takers[i], __ATOMIC_ACQUIRE))
            return;
    /* Who takes one counts the turn first: then this fails. */
    (void)__atomic_compare_exchange_n(&s->skel->bss->rest_turn, &turn, UINT64_MAX, false, __ATOMIC_RELEASE,
                                      __ATOMIC_RELAXED);
}

static void give_rest_back(struct sampler *s, const struct sample_head *head)
{
    __atomic_fetch_sub(&s->skel->bss->rest_takers[head->rest], 1, __ATOMIC_RELEASE);
    begin_again(s);
}

/* Of many at once, those that come in turn: to map one is to enter 33 pages, some 100 us; and all of them
 * would count as 4 MB of ours. */
#define RESTS_MAPPED 2u

const struct unwind_rest *sampler_rest(struct sampler *s, const struct sample_head *head)
{
    const size_t size = sizeof(struct unwind_rest);
    uint32_t first = head->rest - head->rest % RESTS_MAPPED;
    size_t before = first * size % UNWIND_PAGE_SIZE; /* in the page that it begins in */
    if (s->first_rest != first)
        unmap_rests(s);
    if (s->rests.n == 0) {
        size_t n = before + min_of(RESTS_MAPPED, s->n_rests - first) * size;
        void *p = mmap(NULL, n, PROT_READ, MAP_SHARED, bpf_map__fd(s->skel->maps.unwind_rests),
                       (off_t)(first * size - before));
        if (p == MAP_FAILED) {
            give_rest_back(s, head);
            __atomic_fetch_add(&s->skel->bss->n_lost, 1, __ATOMIC_RELAXED);
            return NULL;
        }
        s->rests = bytes_of(p, n);
        s->first_rest = first;
    }
    return (const void *)(s->rests.p + before + (head->rest - first) * size);
}

void sampler_far(struct sampler *s, uint32_t tid, uint64_t address, uint64_t sp)
{
    volatile struct unwind_far *far = (struct unwind_far *)&s->skel->bss->unwind_far[tid % UNWIND_FARS];
    uint64_t page = address & ~(uint64_t)(UNWIND_PAGE_SIZE - 1);
    far->thread = 0;
    far->end = page + (UNWIND_REST_LAST - 1) * UNWIND_PAGE_SIZE; /* one page below, the others above */
    if (address - sp > (UNWIND_REST_PAGES - UNWIND_REST_LAST) * UNWIND_PAGE_SIZE)
        far->thread = tid; /* else it is near now, and not had because of what was far before */
}

void sampler_return(struct sampler *s, const struct sample_head *head, const uint64_t *body, bool at_once)
{
    static const uint8_t zero[8];
    uint64_t size = SAMPLE_BODY_BYTES(head), n = sizeof *head + size, pad = -n % 8;
    give_rest_back(s, head);
    __atomic_fetch_add(&s->skel->bss->n_ends[head->user_end], 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&s->lock);
    int r = s->returned.n + n > RETURNED_MAX ? -ENOSPC : buffer_reserve(&s->returned, sizeof n + n + pad);
    if (r == 0) {
        buffer_add(&s->returned, &n, sizeof n);
        buffer_add(&s->returned, head, sizeof *head);
        buffer_add(&s->returned, body, size);
        buffer_add(&s->returned, zero, pad);
    }
    pthread_mutex_unlock(&s->lock);
    if (r == 0 && at_once)
        eventfd_write(s->returned_fd, 1);
    if (r < 0)
        __atomic_fetch_add(&s->skel->bss->n_lost, 1, __ATOMIC_RELAXED);
}

/* Adds up what each CPU counted of waits of a source. */
static struct sample_waits count_waits(const struct sampler *s, uint32_t source)
{
    struct sample_waits all = {0};
    int n = libbpf_num_possible_cpus();
    autofree struct sample_waits *each = n > 0 ? calloc((size_t)n, sizeof *each) : NULL;
    if (!each || bpf_map_lookup_elem(bpf_map__fd(s->skel->maps.wait_counts), &source, each) < 0)
        return all;
    for (int i = 0; i < n; i++) {
        all.n += each[i].n;
        all.n_short += each[i].n_short;
        all.ns += each[i].ns;
    }
    return all;
}

struct sampler_counts sampler_counts(const struct sampler *s)
{
    const volatile __typeof__(*s->skel->bss) *counted = s->skel->bss;
    struct sampler_counts counts = {
        .taken = counted->n_samples,
        .lost = counted->n_lost,
        .busy = counted->n_busy,
        .malformed = s->malformed,
        .exec_lost = counted->n_exec_lost,
        .unended = counted->n_unended,
        .notices_lost = counted->n_notices_lost,
        .labels_left = counted->n_labels_left,
        .walks = counted->n_walks,
        .rests = counted->n_rests,
        .places_refused = __atomic_load_n(&s->places_refused, __ATOMIC_RELAXED),
    };
    for (uint32_t i = 0; i < UNWIND_ENDS; i++)
        counts.end[i] = counted->n_ends[i];
    struct sample_waits waits = count_waits(s, SAMPLE_FROM_WAIT), locks = count_waits(s, SAMPLE_FROM_LOCK);
    counts.waits = waits.n;
    counts.waits_short = waits.n_short;
    counts.wait_ns = waits.ns;
    counts.locks = locks.n;
    counts.locks_short = locks.n_short;
    struct bpf_program *program;
    bpf_object__for_each_program(program, s->skel->obj)
    {
        struct bpf_prog_info info = {0};
        uint32_t size = sizeof info;
        int fd = bpf_program__fd(program);
        if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size) < 0)
            continue;
        counts.run_ns += info.run_time_ns;
        counts.runs += info.run_cnt;
    }
    return counts;
}
