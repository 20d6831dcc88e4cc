/* SPDX-License-Identifier: Apache-2.0 */
/* Raw samples of this very process in, a decoded OTLP request out: everything between the ring buffer and the
 * wire. */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "proto/otlp/view/profiles.h"
#include "sender/collect/collector.h"
#include "sender/collect/report.h"
#include "sender/collect/request.h"
#include "sender/collect/targets.h"
#include "sender/procs/facts.h"
#include "sender/unwind/key.h"

__attribute__((noinline)) static int leaf_function(int x)
{
    __asm__ volatile("" : "+r"(x));
    return x + 1;
}

__attribute__((noinline)) static int calling_function(int x)
{
    int r = leaf_function(x);
    __asm__ volatile("" : "+r"(r));
    return r + 1;
}

static uint64_t own_start(void)
{
    uint8_t text[4096];
    uint64_t ticks;
    int fd = open("/proc/self/stat", O_RDONLY);
    ssize_t n = read(fd, text, sizeof text);
    close(fd);
    ck_assert_int_eq(facts_start_ticks(bytes_of(text, (size_t)n), &ticks), 0);
    return ticks * (UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* A kernel's symbols, so that the test does not depend on rights. */
static int on_symbols(void *user, const uint64_t *address, uint32_t n, struct buffer *ret)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < n; i++)
        r = address[i] < 0xffffffff81001000
                ? 0
                : buffer_printf(ret, "%llx %s+%#llx/0x1000\n", (unsigned long long)address[i],
                                address[i] < 0xffffffff81002000 ? "do_syscall" : "enter",
                                (unsigned long long)address[i] % 0x1000 + 1);
    return r;
}

static char root[UNIT_PATH_MAX];

static void make_root(void)
{
    char path[sizeof root + 16];
    unit_new_folder(root);
    snprintf(path, sizeof path, "%s/kallsyms", root);
    FILE *f = unit_made(fopen(path, "we"));
    ck_assert_int_ge(fputs("ffffffff81000000 T _text\n", f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

struct sent {
    struct profiles profiles[8];
    uint8_t *bytes[8];
    uint32_t n;
    uint64_t hits;
};

static int keep(void *user, struct buffer *out, uint64_t hits)
{
    struct sent *s = user;
    struct error e = {0};
    size_t n = out->n;
    ck_assert_uint_lt(s->n, 8);
    ck_assert_int_eq(buffer_reserve(out, PROFILES_PADDING), 0);
    s->bytes[s->n] = buffer_take(out, &n);
    ck_assert_int_eq(profiles_init(&s->profiles[s->n], NULL), 0);
    int r = profiles_decode(&s->profiles[s->n], bytes_of(s->bytes[s->n], n), &profiles_limits_default, &e);
    ck_assert_msg(r == 0, "%d %s", r, e.text);
    ck_assert_msg(s->profiles[s->n].rejected.samples == 0, "%s", s->profiles[s->n].rejected.first.text);
    s->n++;
    s->hits += hits;
    return 0;
}

static void release(struct sent *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        profiles_release(&s->profiles[i]);
        free(s->bytes[i]);
    }
}

static struct collector collector;
static struct naming naming;
static struct window closed;
static struct kinds kinds;
static struct relabel *rules;

static void begin(void)
{
    make_root();
    kinds_init(&kinds, 19);
    ck_assert_int_eq(collector_init(&collector, "/proc"), 0);
    ck_assert_int_eq(naming_init(&naming, &(struct kernel_options){on_symbols, NULL, root}, collector.vdso),
                     0);
}

/* The window ends, and is named. */
static void settle(void)
{
    collector_take(&collector, &closed);
    naming_settle(&naming, &closed, collector.procs, 2);
}

static void end(void)
{
    window_release(&closed);
    naming_release(&naming);
    collector_release(&collector);
}

static void feed_ended(uint32_t tid, uint64_t time, const uint64_t *address, uint32_t n_kernel,
                       uint32_t n_user, uint16_t user_end, uint16_t flags)
{
    struct sample_head h = {.kind = SAMPLE_STACK,
                            .pid = (uint32_t)getpid(),
                            .start = own_start(),
                            .time = time,
                            .tid = tid,
                            .cpu = 1,
                            .n_kernel = n_kernel,
                            .n_user = n_user,
                            .user_end = user_end,
                            .flags = flags | SAMPLE_PLAIN,
                            .comm = "worker \xff"};
    collector_stack(&collector, &h, address, 1);
}

static void feed(uint32_t tid, uint64_t time, const uint64_t *address, uint32_t n_kernel, uint32_t n_user)
{
    feed_ended(tid, time, address, n_kernel, n_user, UNWIND_END_OTHER_ABI, 0);
}

static void build_all(struct sent *sent, size_t max_bytes)
{
    struct build *b = unit_made(build_new(NULL));
    struct request_facts facts = {.host_name = BYTES_LIT("box"),
                                  .os_version = BYTES_LIT("6.1"),
                                  .kinds = &kinds,
                                  .relabel = rules,
                                  .kernel_build_id = BYTES_LIT("abcd"),
                                  .realtime_offset = 1000,
                                  .start = 500,
                                  .end = 2000,
                                  .max_bytes = max_bytes};
    ck_assert_int_eq(request_build(b, &naming, &closed, &facts, keep, sent), 0);
    build_free(b);
}

/* The one rule there is, and what it leaves of the window. */
static void thin(int action, double share)
{
    static const char *labels[] = {"process.executable.name"};
    const struct request_facts facts = {
        .relabel = rules = unit_made(relabel_new()), .start = 500, .end = 2000};
    const struct relabel_rule rule = {
        .source_labels = {labels, 1}, .regex = ".*", .action = action, .share = share};
    struct error e;
    unit_made(relabel_add(rules, &rule, &e) == 0 && targets_thin(&closed, &facts) == 0 ? rules : NULL);
}

static uint64_t in(int (*function)(int), unsigned at)
{
    return (uint64_t)(uintptr_t)function + at;
}

/* The attribute of this key among `n` from `at` of the pool, or an empty value. */
static struct attr_value attribute(const struct profiles *p, const uint32_t *at, uint32_t i, const char *key)
{
    for (uint32_t j = at[i]; j < at[i + 1]; j++) {
        uint32_t a = p->attr_index.attribute[j];
        if (bytes_is(profiles_string(p, p->attribute.key[a]), key))
            return p->attribute.value[a];
    }
    return (struct attr_value){0};
}

static struct bytes resource_text(const struct profiles *p, uint32_t i, const char *key)
{
    for (uint32_t j = p->resource.attrs_at[i]; j < p->resource.attrs_at[i + 1]; j++)
        if (bytes_is(p->key_value.attr[j].key, key))
            return p->key_value.attr[j].value.text;
    return bytes_of(NULL, 0);
}

static uint32_t location_of(const struct profiles *p, uint32_t sample, uint32_t frame)
{
    ck_assert_uint_lt(sample, p->sample.n);
    uint32_t at = p->stack.locations_at[p->sample.stack[sample]] + frame;
    ck_assert_uint_lt(at, p->stack.locations_at[p->sample.stack[sample] + 1]);
    return p->stack_location.location[at];
}

static struct bytes name_of(const struct profiles *p, uint32_t location)
{
    if (p->location.lines_at[location] == p->location.lines_at[location + 1])
        return BYTES_LIT("");
    uint32_t function = p->line.function[p->location.lines_at[location]];
    return profiles_string(p, p->function.name[function]);
}

/* A sample of ours whose thread works for something: a record as the kernel side copies it. */
static void feed_context(uint32_t tid, uint8_t trace, uint8_t span, const char *attributes, size_t n)
{
    struct {
        uint64_t address[1];
        uint8_t context[CONTEXT_BYTES_MAX];
    } record = {.address = {in(leaf_function, 0)}};
    struct sample_head h = {
        .kind = SAMPLE_STACK, .pid = (uint32_t)getpid(), .start = own_start(), .time = 700};
    uint16_t size = (uint16_t)n;
    h.tid = tid;
    h.n_user = 1;
    h.flags = SAMPLE_PLAIN;
    h.n_context = (uint16_t)(CONTEXT_HEAD_BYTES + n);
    memset(record.context, trace, 16);
    memset(record.context + 16, span, 8);
    record.context[CONTEXT_VALID_AT] = 1;
    memcpy(record.context + CONTEXT_SIZE_AT, &size, sizeof size);
    memcpy(record.context + CONTEXT_HEAD_BYTES, attributes, n);
    collector_stack(&collector, &h, record.address, 1);
}

/* What the process says the keys are. */
static void say_keys(void)
{
    static struct bytes keys[] = {BYTES_LIT("http.route"), BYTES_LIT("thread.id"), BYTES_LIT("user"),
                                  BYTES_LIT("http.route")};
    struct process *self = unit_made(
        procs_get(collector.procs, (uint32_t)getpid(), (uint32_t)getpid(), own_start(), "x", false, 1));
    if (!self->identity)
        self->identity = unit_made(calloc(1, sizeof *self->identity));
    self->identity->key = keys;
    self->identity->n_keys = 4;
}

UNIT(what_a_thread_works_for_is_link_and_attributes)
{
    struct sent sent = {0};
    begin();
    say_keys();
    feed_context(1, 0xaa, 0xbb,
                 "\x00\x02/a\x02\x01x\x01\x01"
                 "9\x03\x02/b",
                 14);
    feed_context(1, 0xaa, 0xbb,
                 "\x00\x02/a\x02\x01x\x01\x01"
                 "9\x03\x02/b",
                 14);                                           /* the same sample */
    feed_context(1, 0xaa, 0xbc, "", 0);                         /* another span */
    feed_context(2, 0, 0, "\x02\x01\xff\x02\x01z\x09\x01y", 9); /* no link; no UTF-8, an unknown key */
    feed_context(3, 0, 0xbb, "", 0);                            /* one id is none */
    settle();
    build_all(&sent, REQUEST_BYTES_MAX);
    const struct profiles *p = &sent.profiles[0];
    ck_assert_uint_eq(p->sample.n, 4);
    ck_assert_uint_eq(sent.hits, 5);
    uint32_t first = p->sample.link[0], second = p->sample.link[1];
    ck_assert(first && second && first != second);
    ck_assert_uint_eq(p->sample.link[2] + p->sample.link[3], 0);
    ck_assert(
        bytes_is(attribute(p, p->sample.attrs_at, 0, "http.route").text, "/b")); /* the last of a name */
    ck_assert(bytes_is(attribute(p, p->sample.attrs_at, 0, "user").text, "x"));
    ck_assert_int_eq(attribute(p, p->sample.attrs_at, 0, "thread.id").integer, 1); /* ours stays ours */
    ck_assert(bytes_is(attribute(p, p->sample.attrs_at, 2, "user").text, "z"));
    ck_assert_int_eq(attribute(p, p->sample.attrs_at, 1, "http.route").kind, ATTR_EMPTY);
    release(&sent);
    end();
}

UNIT(names_addresses_and_attributes_arrive)
{
    /* kernel: leaf, then a return address at the very begin of the next function; user: leaf at its very
     * begin, then a return address just behind leaf_function's last byte would be another's: one less is
     * looked up. */
    uint64_t address[] = {0xffffffff81001000, 0xffffffff81002000, in(leaf_function, 0),
                          in(calling_function, 1)};
    struct sent sent = {0};
    begin();
    feed(77, 700, address, 2, 2);
    feed(77, 400, address, 2, 2);
    feed(78, 800, address, 2, 2);
    settle();
    build_all(&sent, REQUEST_BYTES_MAX);
    ck_assert_uint_eq(sent.n, 1);
    ck_assert_uint_eq(sent.hits, 3);
    const struct profiles *p = &sent.profiles[0];
    ck_assert_uint_eq(p->resource.n, 1);
    ck_assert(bytes_is(resource_text(p, 0, "process.executable.name"), "unit_sender_collect_test_request"));
    ck_assert(bytes_is(resource_text(p, 0, "service.name"), "unit_sender_collect_test_request"));
    ck_assert(bytes_is(resource_text(p, 0, "host.name"), "box"));
    ck_assert_uint_eq(p->profile.n, 1);
    ck_assert(bytes_is(profiles_string(p, p->profile.type[0]), "samples"));
    ck_assert(bytes_is(profiles_string(p, p->profile.unit[0]), "count"));
    ck_assert(bytes_is(profiles_string(p, p->profile.period_type[0]), "cpu"));
    ck_assert_int_eq(p->profile.period[0], 1000000000 / 19);
    ck_assert_uint_eq(p->profile.time_unix_nano[0], 1400); /* moved back to the oldest */
    ck_assert_uint_eq(p->profile.duration_nano[0], 1600);
    ck_assert_uint_eq(p->sample.n, 2);
    ck_assert_uint_eq(p->sample.n_timestamps[0], 2);
    ck_assert_uint_eq(p->sample.n_values[0], 0);
    ck_assert_int_eq(attribute(p, p->sample.attrs_at, 0, "thread.id").integer, 77);
    ck_assert_int_eq(attribute(p, p->sample.attrs_at, 0, "cpu.logical_number").integer, 1);
    ck_assert(bytes_is(attribute(p, p->sample.attrs_at, 0, "thread.name").text, "worker ?"));

    uint32_t l = location_of(p, 0, 0);
    ck_assert(bytes_is(name_of(p, l), "do_syscall"));
    ck_assert_uint_eq(p->location.address[l], 0x1000);
    ck_assert(bytes_is(attribute(p, p->location.attrs_at, l, "profile.frame.type").text, "kernel"));
    ck_assert(bytes_is(profiles_string(p, p->mapping.filename[p->location.mapping[l]]), "vmlinux"));
    l = location_of(p, 0, 1);
    ck_assert(bytes_is(name_of(p, l), "do_syscall")); /* not "enter" */
    ck_assert_uint_eq(p->location.address[l], 0x1fff);
    l = location_of(p, 0, 2);
    ck_assert(bytes_is(name_of(p, l), "leaf_function"));
    ck_assert(bytes_is(attribute(p, p->location.attrs_at, l, "profile.frame.type").text, "native"));
    uint32_t m = p->location.mapping[l];
    ck_assert_uint_ge(p->location.address[l], p->mapping.memory_start[m]);
    ck_assert_uint_lt(p->location.address[l], p->mapping.memory_limit[m]);
    ck_assert_uint_eq(attribute(p, p->mapping.attrs_at, m, "process.executable.build_id.gnu").text.n, 40);
    ck_assert_uint_eq(attribute(p, p->mapping.attrs_at, m, "process.executable.build_id.htlhash").text.n, 32);
    uint64_t leaf = p->location.address[l];
    l = location_of(p, 0, 3);
    ck_assert(bytes_is(name_of(p, l), "calling_function"));
    ck_assert_uint_eq(p->location.address[l] - leaf, in(calling_function, 0) - in(leaf_function, 0));
    ck_assert_int_eq(calling_function(1), 3);
    release(&sent);
    end();
}

UNIT(a_kernel_address_without_a_name_stays_here)
{
    uint64_t address[] = {0xffffffff71234567, in(leaf_function, 0)};
    struct sent sent = {0};
    begin();
    feed(1, 700, address, 1, 1);
    settle();
    build_all(&sent, REQUEST_BYTES_MAX);
    const struct profiles *p = &sent.profiles[0];
    uint32_t l = location_of(p, 0, 0);
    ck_assert(bytes_is(attribute(p, p->location.attrs_at, l, "profile.frame.type").text, "kernel"));
    ck_assert_uint_eq(p->location.address[l], 0);
    ck_assert(bytes_is(name_of(p, location_of(p, 0, 1)), "leaf_function"));
    release(&sent);
    end();
}

UNIT(a_stack_ends_where_it_leaves_the_code)
{
    uint64_t address[] = {in(leaf_function, 0), 0x1234, in(calling_function, 1)};
    struct sent sent = {0};
    begin();
    feed(1, 700, address, 0, 3);
    settle();
    build_all(&sent, REQUEST_BYTES_MAX);
    const struct profiles *p = &sent.profiles[0];
    ck_assert_uint_gt(p->sample.n, 0);
    uint32_t stack = p->sample.stack[0];
    ck_assert_uint_eq(p->stack.locations_at[stack + 1] - p->stack.locations_at[stack], 1);
    release(&sent);
    end();
}

/* The kernel side's own walk: addresses are inside the calls already, and where it found code there is code.
 */
UNIT(an_exact_stack_is_taken_as_it_is)
{
    uint64_t address[] = {in(leaf_function, 0), in(calling_function, 0), 0x1234, in(leaf_function, 0)};
    struct sent sent = {0};
    begin();
    feed_ended(1, 700, address, 0, 4, UNWIND_END_ROOT, SAMPLE_EXACT);
    settle();
    build_all(&sent, REQUEST_BYTES_MAX);
    const struct profiles *p = &sent.profiles[0];
    ck_assert_uint_gt(p->sample.n, 0);
    uint32_t stack = p->sample.stack[0];
    ck_assert_uint_eq(p->stack.locations_at[stack + 1] - p->stack.locations_at[stack], 4);
    ck_assert(bytes_is(name_of(p, location_of(p, 0, 1)), "calling_function"));
    ck_assert_uint_eq(p->location.address[location_of(p, 0, 2)], 0x1234);
    release(&sent);
    end();
}

int main(int argc, char **argv);

UNIT(a_stack_that_is_not_whole_says_what_it_lacks)
{
    uint64_t cut[] = {in(leaf_function, 0), in(calling_function, 0)};
    uint64_t whole[] = {in(leaf_function, 0), (uint64_t)(uintptr_t)main};
    static const struct {
        uint16_t end, flags;
        const char *says;
    } cases[] = {
        {UNWIND_END_ROOT, 0, NULL},      {UNWIND_END_ROOT, SAMPLE_GUESSED, "guessed"},
        {UNWIND_END_DEPTH, 0, "depth"},  {UNWIND_END_UNREADABLE, 0, "unreadable"},
        {UNWIND_END_NOT_CODE, 0, "cut"}, {UNWIND_END_BAD_FRAME, SAMPLE_GUESSED, "cut"},
    };
    enum { N = sizeof cases / sizeof *cases };
    struct sent sent = {0};
    begin();
    for (uint32_t i = 0; i < N; i++)
        feed_ended(1, 700, cut, 0, 2, cases[i].end, cases[i].flags | SAMPLE_EXACT);
    feed_ended(1, 700, whole, 0, 2, UNWIND_END_BAD_FRAME, SAMPLE_EXACT);
    /* A guess that was good enough to come to main, and may have left out who called the leaf. */
    feed_ended(1, 700, whole, 0, 2, UNWIND_END_BAD_FRAME, SAMPLE_EXACT | SAMPLE_GUESSED);
    settle();
    build_all(&sent, REQUEST_BYTES_MAX);
    const struct profiles *p = &sent.profiles[0];
    ck_assert_uint_eq(p->sample.n, N + 2);
    for (uint32_t i = 0; i < p->sample.n; i++) {
        struct bytes says = attribute(p, p->sample.attrs_at, i, "profsend.stack.incomplete").text;
        const char *want = i < N ? cases[i].says : i == N ? NULL : "cut";
        ck_assert_msg(want ? bytes_is(says, want) : says.n == 0, "%u: %.*s", i, BYTES_FMT(says));
    }
    release(&sent);
    end();
}

/* One process, two kinds: two profiles of one resource, each with its type; waits weigh what they lasted,
 * over the probability. */
UNIT(each_kind_is_a_profile_of_its_own)
{
    uint64_t address[] = {in(leaf_function, 0)};
    struct sent sent = {0};
    begin();
    kinds_add_wait(&kinds, 0.5);
    feed(1, 700, address, 0, 1);
    struct sample_head h = {.kind = SAMPLE_STACK,
                            .pid = (uint32_t)getpid(),
                            .start = own_start(),
                            .time = 800,
                            .tid = 1,
                            .n_user = 1,
                            .user_end = UNWIND_END_ROOT,
                            .flags = SAMPLE_EXACT | SAMPLE_PLAIN,
                            .source = SAMPLE_FROM_WAIT,
                            .detail = SAMPLE_WAIT_SLEEP,
                            .ticket = 5};
    collector_stack(&collector, &h, address, 1);
    ck_assert_uint_eq(window_samples(&collector.window), 1); /* it waits for its weight */
    struct sample_head value = {
        .kind = SAMPLE_VALUE, .source = SAMPLE_FROM_WAIT, .ticket = 5, .value = 300, .time = 900};
    collector_notice(&collector, &value, 1);
    collector_notice(&collector, &value, 1); /* a ticket is good once */
    settle();
    build_all(&sent, REQUEST_BYTES_MAX);
    const struct profiles *p = &sent.profiles[0];
    ck_assert_uint_eq(p->resource.n, 1);
    ck_assert_uint_eq(p->profile.n, 2);
    ck_assert(bytes_is(profiles_string(p, p->profile.type[1]), "off_cpu"));
    ck_assert(bytes_is(profiles_string(p, p->profile.unit[1]), "nanoseconds"));
    ck_assert_uint_eq(p->sample.n, 2);
    ck_assert_uint_eq(p->sample.n_values[0], 0);
    ck_assert_uint_eq(p->sample.n_values[1], 1);
    ck_assert(bytes_is(attribute(p, p->sample.attrs_at, 1, "profsend.off_cpu.state").text, "sleep"));
    release(&sent);
    end();
}

UNIT(generated_code_is_named_by_the_perf_map)
{
    char path[64];
    uint64_t address[] = {0x1000};
    struct sent sent = {0};
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    FILE *f = fopen(path, "w");
    fprintf(f, "0f00 200 JS:*hot /x.js:1:1\n");
    fclose(f);
    begin();
    feed(1, 700, address, 0, 1);
    settle();
    unlink(path);
    build_all(&sent, REQUEST_BYTES_MAX);
    const struct profiles *p = &sent.profiles[0];
    uint32_t l = location_of(p, 0, 0);
    ck_assert(bytes_is(name_of(p, l), "JS:*hot /x.js:1:1"));
    ck_assert(bytes_is(attribute(p, p->location.attrs_at, l, "profile.frame.type").text, "v8js"));
    ck_assert_uint_eq(p->location.mapping[l], 0);
    release(&sent);
    end();
}

/* What stands for this program where its tables are not known. */
static uint32_t own_mark(void)
{
    struct stat st;
    ck_assert_int_eq(stat("/proc/self/exe", &st), 0);
    struct unwind_key key = {.inode = st.st_ino,
                             .size = (uint64_t)st.st_size,
                             .mtime = key_time(&st),
                             .device = major(st.st_dev) << 20 | minor(st.st_dev)};
    return unwind_mark(&key);
}

/* As the kernel side sends them: frames that say what they are. */
UNIT(frames_are_taken_by_their_kind)
{
    struct sample_frame frame[] = {
        {.kind = SAMPLE_FRAME_CODE, .file = own_mark(), .where = in(leaf_function, 0)},
        {.kind = SAMPLE_FRAME_WORD, .where = 0x1234, .extra = 5},
        {.kind = SAMPLE_FRAME_CODE, .file = own_mark(), .where = in(calling_function, 0)},
        {.kind = SAMPLE_FRAME_WORD, .where = 0x1234, .extra = 6},
        {.kind = SAMPLE_FRAME_WORD, .where = 0x1234, .extra = 5},
    };
    struct sample_head h = {.kind = SAMPLE_STACK,
                            .pid = (uint32_t)getpid(),
                            .start = own_start(),
                            .time = 700,
                            .tid = 1,
                            .n_user = ARRAY_LEN(frame),
                            .user_end = UNWIND_END_ROOT,
                            .flags = SAMPLE_EXACT};
    struct sent sent = {0};
    begin();
    collector_stack(&collector, &h, (const uint64_t *)frame, 1);
    uint32_t n;
    ck_assert_uint_eq(window_samples(&collector.window), 1);
    const struct frame *taken = window_frames(&collector.window, 0, &n);
    ck_assert_uint_eq(n, ARRAY_LEN(frame));
    ck_assert(taken[1].kind == FRAME_WORD && taken[3].kind == FRAME_WORD);
    ck_assert(taken[1].file == taken[4].file && taken[1].file != taken[3].file); /* another place in it */
    settle();
    build_all(&sent, REQUEST_BYTES_MAX);
    const struct profiles *p = &sent.profiles[0];
    ck_assert(bytes_is(name_of(p, location_of(p, 0, 0)), "leaf_function"));
    uint32_t l = location_of(p, 0, 1); /* no runtime of that name says what it is: it stays in its place */
    ck_assert_uint_eq(name_of(p, l).n, 0);
    ck_assert(bytes_is(attribute(p, p->location.attrs_at, l, "profile.frame.type").text, "native"));
    ck_assert(bytes_is(name_of(p, location_of(p, 0, 2)), "calling_function"));
    release(&sent);
    end();
}

/* It had some of a runtime's in a window before. */
UNIT(a_window_without_frames_of_a_runtime_has_its_resource)
{
    const uint64_t address[] = {in(leaf_function, 1)};
    struct sent sent = {0};
    begin();
    feed(1, 700, address, 0, 1);
    settle();
    struct process *process = unit_made(closed.process.n ? closed.process.p[0].process : NULL);
    process->runtime_name = "cpython";
    strcpy(process->runtime_version, "3.11.2");
    build_all(&sent, REQUEST_BYTES_MAX);
    ck_assert(bytes_is(resource_text(&sent.profiles[0], 0, "process.runtime.name"), "cpython"));
    ck_assert(bytes_is(resource_text(&sent.profiles[0], 0, "process.runtime.version"), "3.11.2"));
    release(&sent);
    end();
}

/* Ticks of the clock and calls of a probe, half of each of one stack. */
static void feed_both(uint32_t n)
{
    struct {
        uint64_t address[1];
    } record = {.address = {in(leaf_function, 1)}};
    for (uint32_t i = 0; i < n; i++) {
        struct sample_head h = {.kind = SAMPLE_STACK,
                                .pid = (uint32_t)getpid(),
                                .start = own_start(),
                                .time = 600 + i,
                                .tid = 1 + i % 2,
                                .n_user = 1,
                                .flags = SAMPLE_PLAIN,
                                .value = 1,
                                .source = i % 4 < 2 ? SAMPLE_FROM_CLOCK : SAMPLE_FROM_OTHERS};
        collector_stack(&collector, &h, record.address, 1);
    }
}

UNIT(a_share_of_samples_says_what_each_stands_for)
{
    enum { ALL = 8000 };
    char probe[] = "libc:malloc";
    struct sent sent = {0};
    struct error e;
    begin();
    ck_assert_int_eq(kinds_add_probe(&kinds, probe, &e), 0);
    feed_both(ALL);
    settle();
    thin(RELABEL_SAMPLE, 0.3);
    build_all(&sent, REQUEST_BYTES_MAX);
    const struct profiles *p = &sent.profiles[0];
    uint64_t ticks = 0, calls = 0;
    ck_assert_uint_eq(p->profile.n, 2);
    for (uint32_t i = 0; i < p->sample.n; i++) {
        if (p->sample.n_values[i] == 0)
            ticks += p->sample.n_timestamps[i];
        else
            calls += (uint64_t)p->sample.value_sum[i];
    }
    /* five standard deviations of what is left of ALL / 2 hits, each of which stands for 1 / 0.3 */
    const double hits = ALL / 2.0, far = 5 * sqrt(hits * 0.3 * 0.7);
    ck_assert_double_eq_tol((double)ticks, hits * 0.3, far);
    ck_assert_double_eq_tol((double)calls, hits, far / 0.3);
    ck_assert_int_eq(p->profile.period[0], 175438593); /* 52631578 ns / 0.3 */
    ck_assert(bytes_is(attribute(p, p->profile.attrs_at, 0, "profsend.sampling.probability").text, "0.3"));
    ck_assert_uint_eq(closed.unwanted + sent.hits, ALL);
    rules = relabel_free(rules);
    release(&sent);
    end();
}

UNIT(nothing_is_sent_of_who_is_dropped)
{
    struct sent sent = {0};
    begin();
    feed_both(100);
    settle();
    thin(RELABEL_DROP, 1);
    build_all(&sent, REQUEST_BYTES_MAX);
    ck_assert_uint_eq(sent.n, 0);
    ck_assert_uint_eq(closed.unwanted, 100);
    rules = relabel_free(rules);
    release(&sent);
    end();
}

/* Serial 7 is this very program, 8 nothing any more. */
static bool code_of_7(void *user, uint32_t serial, uint32_t whose, bool opens, struct collector_code *ret)
{
    struct stat st;
    (*(uint32_t *)user)++;
    *ret = (struct collector_code){
        .key = {.inode = 123, .minor = 4}, .fd = open("/proc/self/exe", O_RDONLY), .path = "/gone/program"};
    ck_assert_int_eq(fstat(ret->fd, &st), 0);
    ret->key.content = foreign_content(&st);
    return serial == 7;
}

/* A frame as the walk in the kernel puts it: of a function here, in a process that has it elsewhere. */
static struct sample_frame walked(uint32_t serial, int (*function)(int), uint8_t cfa)
{
    struct maps maps = {0};
    int fd = open("/proc/self/maps", O_RDONLY);
    ck_assert_int_eq(maps_read(&maps, fd, MAPS_BYTES_MAX), 0);
    close(fd);
    const struct region *region = unit_made(maps_find(&maps, in(function, 1)));
    uint64_t offset = in(function, 1) - region->start + region->offset;
    maps_release(&maps);
    return (struct sample_frame){.kind = SAMPLE_FRAME_CODE,
                                 .runtime = cfa,
                                 .extra = (uint16_t)(offset >> UNWIND_PAGE_BITS),
                                 .file = serial,
                                 .where = UINT64_C(0x123400000) | (offset & (UNWIND_PAGE_SIZE - 1))};
}

/* A stack of a process that nobody has seen. */
static void feed_walked(const struct sample_frame *frame, uint32_t n, uint16_t user_end)
{
    struct sample_head h = {.kind = SAMPLE_STACK,
                            .pid = 0x7ffffff0,
                            .start = 5,
                            .time = 700,
                            .tid = 1,
                            .n_user = n,
                            .user_end = user_end,
                            .flags = SAMPLE_EXACT};
    collector_stack(&collector, &h, (const uint64_t *)frame, 1);
}

UNIT(frames_of_a_process_that_has_ended_are_named_by_their_file)
{
    struct sample_frame frame[] = {walked(7, leaf_function, UNWIND_CFA_RSP),
                                   walked(8, leaf_function, UNWIND_CFA_RSP),
                                   walked(7, calling_function, UNWIND_CFA_RSP)};
    struct sent sent = {0};
    uint32_t asked = 0;
    begin();
    collector.code = code_of_7;
    collector.code_user = &asked;
    for (int i = 0; i < 3; i++)
        feed_walked(frame, ARRAY_LEN(frame), UNWIND_END_ROOT);
    ck_assert_uint_eq(asked, 1 + 3); /* what is not known is asked for each time */
    settle();
    build_all(&sent, REQUEST_BYTES_MAX);
    const struct profiles *p = &sent.profiles[0];
    ck_assert_uint_eq(p->sample.n, 1);
    ck_assert(bytes_is(name_of(p, location_of(p, 0, 0)), "leaf_function"));
    ck_assert_uint_eq(name_of(p, location_of(p, 0, 1)).n, 0);
    ck_assert(bytes_is(name_of(p, location_of(p, 0, 2)), "calling_function"));
    release(&sent);
    end();
}

/* Most of what the kernel counts is of memory without code: where each frame says which file it is in, the
 * maps are not read again. */
UNIT(maps_stand_while_frames_say_where_they_are)
{
    static const struct {
        uint32_t serial;
        bool reads;
    } cases[] = {{7, true}, {7, false}, {8, true}, {7, false}, {0, true}}; /* 8 is known to nobody */
    uint32_t asked = 0, changes = 0;
    uint64_t now = UINT64_C(1000000000);
    begin();
    collector.code = code_of_7;
    collector.code_user = &asked;
    struct process *self = unit_made(
        procs_get(collector.procs, (uint32_t)getpid(), (uint32_t)getpid(), own_start(), "", false, now));
    unit_made(procs_region(collector.procs, self, in(leaf_function, 1), true, now)); /* however young it is */
    for (uint32_t i = 0; i < ARRAY_LEN(cases); i++, now += PROCS_FOLLOW_MAX_NS) {
        struct process *process =
            procs_get(collector.procs, (uint32_t)getpid(), (uint32_t)getpid(), own_start(), "", false, now);
        process->identify_at = 0; /* they are read for that, too */
        uint64_t before = i == 0 ? 0 : process->maps_tried;
        struct sample_frame frame = walked(cases[i].serial, leaf_function, UNWIND_CFA_RSP);
        struct sample_head h = {.kind = SAMPLE_STACK,
                                .pid = (uint32_t)getpid(),
                                .start = own_start(),
                                .n_user = 1,
                                .flags = SAMPLE_EXACT,
                                .changes = changes += 2};
        uint64_t body[SAMPLE_FRAME_WORDS];
        frame.where = in(leaf_function, 1);
        memcpy(body, &frame, sizeof frame);
        collector_stack(&collector, &h, body, now);
        ck_assert_msg((process->maps_tried != before) == cases[i].reads, "%u", i);
    }
    end();
}

UNIT(what_frames_tell_of_a_stack_is_said)
{
    int (*const begin_of_all)(int) = (int (*)(int))(void (*)(void))main;
    const struct sample_frame sure = walked(7, leaf_function, UNWIND_CFA_RSP),
                              bare = walked(7, calling_function, UNWIND_CFA_NONE),
                              first = walked(7, begin_of_all, UNWIND_CFA_RSP),
                              nowhere = {.kind = SAMPLE_FRAME_CODE, .where = 0x5000};
    const struct {
        struct sample_frame frame[3];
        const char *says;
    } cases[] = {
        {{sure, sure, sure}, NULL},  {{sure, bare, sure}, "guessed"}, {{bare, first, sure}, "guessed"},
        {{sure, first, bare}, NULL}, {{sure, sure, nowhere}, "cut"},  {{sure, nowhere, sure}, NULL},
    };
    struct sent sent = {0};
    uint32_t asked = 0;
    begin();
    collector.code = code_of_7;
    collector.code_user = &asked;
    for (uint32_t i = 0; i < ARRAY_LEN(cases); i++)
        feed_walked(cases[i].frame, 3, UNWIND_END_ROOT);
    settle();
    build_all(&sent, REQUEST_BYTES_MAX);
    const struct profiles *p = &sent.profiles[0];
    ck_assert_uint_eq(p->sample.n, ARRAY_LEN(cases));
    for (uint32_t i = 0; i < p->sample.n; i++) {
        struct bytes says = attribute(p, p->sample.attrs_at, i, "profsend.stack.incomplete").text;
        ck_assert_msg(cases[i].says ? bytes_is(says, cases[i].says) : says.n == 0, "%u: %.*s", i,
                      BYTES_FMT(says));
    }
    release(&sent);
    end();
}

UNIT(a_weight_may_come_before_its_stack)
{
    struct sample_head h = {
        .kind = SAMPLE_STACK, .pid = (uint32_t)getpid(), .start = own_start(), .tid = 1, .n_kernel = 1};
    uint64_t body[] = {0xffffffff81001000};
    begin();
    for (uint64_t ticket = 1; ticket <= 4; ticket++) {
        struct sample_head stack = h, value = h;
        stack.ticket = value.ticket = ticket;
        value.kind = SAMPLE_VALUE;
        value.n_kernel = 0;
        value.value = ticket % 2 ? 50 : 0; /* 0: it is to be forgotten */
        if (ticket <= 2) {                 /* the stack is on its way by user space */
            collector_notice(&collector, &value, 1);
            collector_stack(&collector, &stack, body, 1);
        } else {
            collector_stack(&collector, &stack, body, 1);
            collector_notice(&collector, &value, 1);
        }
        ck_assert_uint_eq(collector.window.time.n, (ticket + 1) / 2);
    }
    ck_assert_uint_eq(collector.window.time.p[0].value, 50);
    ck_assert_uint_eq(collector.pending.n, 0);
    end();
}

UNIT(kernel_frames_alone_are_whole_where_there_is_no_user_code)
{
    uint64_t body[] = {0xffffffff81001000, 0xffffffff81002000};
    struct sent sent = {0};
    begin();
    feed_ended(1, 700, body, 2, 0, UNWIND_END_NOT_CODE,
               SAMPLE_EXACT); /* in execve, or a worker of io_uring */
    feed_ended(2, 700, body, 0, 0, UNWIND_END_NOT_CODE, SAMPLE_EXACT); /* a jump to nowhere */
    settle();
    build_all(&sent, REQUEST_BYTES_MAX);
    const struct profiles *p = &sent.profiles[0];
    ck_assert_uint_eq(attribute(p, p->sample.attrs_at, 0, "profsend.stack.incomplete").text.n, 0);
    ck_assert(bytes_is(attribute(p, p->sample.attrs_at, 1, "profsend.stack.incomplete").text, "cut"));
    release(&sent);
    end();
}

UNIT(a_large_window_is_split_and_nothing_is_lost)
{
    uint64_t address[] = {in(leaf_function, 0)};
    struct sent sent = {0};
    begin();
    for (uint32_t i = 0; i < 2000; i++)
        feed(i + 1, 700 + i, address, 0, 1);
    settle();
    build_all(&sent, 32768);
    ck_assert_uint_gt(sent.n, 1);
    ck_assert_uint_eq(sent.hits, 2000);
    uint32_t samples = 0;
    for (uint32_t i = 0; i < sent.n; i++) {
        samples += sent.profiles[i].sample.n;
        ck_assert(
            bytes_is(name_of(&sent.profiles[i], location_of(&sent.profiles[i], 0, 0)), "leaf_function"));
    }
    ck_assert_uint_eq(samples, 2000);
    release(&sent);
    end();
}

/* Their ids are one random number and a count: each its own, and next to nothing when packed. */
UNIT(ids_of_profiles_differ_and_pack_well)
{
    uint64_t address[] = {in(leaf_function, 0)};
    struct sent sent = {0};
    begin();
    feed(1, 700, address, 0, 1);
    struct sample_head other = {
        .kind = SAMPLE_STACK, .pid = 1, .start = 1, .time = 800, .n_kernel = 1, .comm = "init"};
    uint64_t kernel = 0xffffffff81001004;
    collector_stack(&collector, &other, &kernel, 1);
    settle();
    build_all(&sent, REQUEST_BYTES_MAX);
    const struct profiles *p = &sent.profiles[0];
    ck_assert_uint_eq(p->profile.n, 2);
    struct bytes a = p->profile.profile_id[0], b = p->profile.profile_id[1];
    ck_assert_uint_eq(a.n, 16);
    ck_assert_uint_eq(b.n, 16);
    ck_assert(memcmp(a.p, b.p, 12) == 0 && memcmp(a.p, b.p, 16) != 0);
    build_all(&sent, REQUEST_BYTES_MAX);
    ck_assert(memcmp(sent.profiles[1].profile.profile_id[0].p, a.p, 12) != 0);
    release(&sent);
    end();
}

UNIT(an_empty_window_sends_nothing)
{
    struct sent sent = {0};
    begin();
    settle();
    build_all(&sent, REQUEST_BYTES_MAX);
    ck_assert_uint_eq(sent.n, 0);
    naming_next(&naming);
    window_clear(&closed);
    collector_sweep(&collector, 3);
    end();
}

static inline __attribute__((always_inline)) uint64_t inlined_here(void)
{
    uint64_t ip;
    __asm__ volatile("lea 0(%%rip), %0" : "=r"(ip));
    return ip - 1;
}

__attribute__((noinline)) static uint64_t function_around(void)
{
    uint64_t ip = inlined_here();
    __asm__ volatile("" : "+r"(ip));
    return ip;
}

UNIT(the_report_has_inlined_calls_and_lines)
{
    uint64_t address[] = {function_around(), in(calling_function, 1)};
    char *text;
    size_t n;
    begin();
    feed_ended(1, 700, address, 0, 2, UNWIND_END_ROOT, SAMPLE_EXACT);
    settle();
    FILE *f = open_memstream(&text, &n);
    ck_assert_int_eq(report_write(f, &naming, &closed, 1, &kinds), 0);
    fclose(f);
    const char *inner = unit_made(strstr(text, "      inlined_here [unit_sender_collect_test_request] "));
    const char *line = unit_made(strstr(inner, "collect/test_request.c:"));
    ck_assert_ptr_eq(strchr(line, '('), strstr(inner, "(inlined)\n      function_around ["));
    const char *outer = unit_made(strstr(inner, "      function_around ["));
    ck_assert_ptr_null(memmem(outer, (size_t)(strchr(outer, '\n') - outer), "(inlined)", 9));
    ck_assert_ptr_nonnull(strstr(outer, "      calling_function ["));
    free(text);
    end();
}

UNIT(the_report_names_process_and_function)
{
    uint64_t address[] = {in(leaf_function, 0)};
    char *text;
    size_t n;
    begin();
    feed(1, 700, address, 0, 1);
    settle();
    FILE *f = open_memstream(&text, &n);
    ck_assert_int_eq(report_write(f, &naming, &closed, 1, &kinds), 0);
    fclose(f);
    ck_assert_ptr_nonnull(strstr(text, "1 samples of 1 processes"));
    ck_assert_ptr_nonnull(strstr(text, "leaf_function [unit_sender_collect_test_request]"));
    free(text);
    end();
}

UNIT(the_report_tells_probes_apart)
{
    char probe[] = "libc:malloc";
    char *text;
    size_t n;
    struct error e;
    begin();
    ck_assert_int_eq(kinds_add_probe(&kinds, probe, &e), 0);
    feed_both(8);
    settle();
    FILE *f = open_memstream(&text, &n);
    ck_assert_int_eq(report_write(f, &naming, &closed, 1, &kinds), 0);
    fclose(f);
    ck_assert_ptr_nonnull(strstr(text, "samples: 4 samples of 1 processes"));
    ck_assert_ptr_nonnull(strstr(text, "events of libc:malloc: 4 samples of 1 processes"));
    free(text);
    end();
}

UNIT(the_kernel_build_id_is_read_from_notes)
{
    static const uint8_t notes[] = {4, 0, 0, 0, 1, 0, 0, 0, 9, 0, 0, 0, 'X', 'e', 'n', 0, 7,    0,    0, 0,
                                    4, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0, 0xab, 0xcd, 0, 0};
    char hex[32];
    ck_assert_uint_eq(request_kernel_build_id(bytes_of(notes, sizeof notes), hex, sizeof hex), 4);
    ck_assert_str_eq(hex, "abcd");
    ck_assert_uint_eq(request_kernel_build_id(bytes_of(notes, sizeof notes - 4), hex, sizeof hex), 0);
    ck_assert_uint_eq(request_kernel_build_id(bytes_of(notes, sizeof notes), hex, 4), 0);
}
