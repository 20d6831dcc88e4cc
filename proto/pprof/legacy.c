/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each kind is told by its first line, or the first words of a binary profile, and reads its samples; what
 * follows them is the memory map. Then all is written as pprof.
 */
#include "proto/pprof/legacy.h"

#include <endian.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "proto/pprof/legacy_parts.h"
#include "proto/pprof/write.h"

/* Frames of allocators, locks and profilers themselves, which pprof leaves out where it shows a profile: said
 * in these formats by their kind alone. */
#define DROP_ALLOCATORS                                                                                \
    "(tc_|__libc_|do_)?(c|m|v|pv|re)alloc|(tc_)?c?free|(tc_|do_|__)?(posix_)?memalign|"                \
    "tc_(new|delete)(array)?(_nothrow)?|tcmalloc::.*|malloc_zone_.*|runtime\\..*|(::)?do_malloc.*|"    \
    "operator (new|delete)(\\[\\])?|__builtin_(vec_)?(new|delete)|_M_allocate|BaseArena::.*|allocate|" \
    "__gnu_cxx::new_allocator::allocate|DoSampledAllocation"
#define KEEP_RUNTIME "runtime\\.(panic|reflectcall|call[0-9]*)"
#define DROP_LOCKS                                                                            \
    "(base::)?(RecordLockProfileData|Submit(Mutex|SpinLock)ProfileData).*|"                   \
    "((base::)?Mutex::)?(AwaitCommon|(Reader)?Unlock).*|((base::)?MutexLock::)?~MutexLock.*|" \
    "(SpinLock::)?(Slow)?Unlock.*|(SpinLockHolder::)?~SpinLockHolder.*"
#define DROP_PROFILER "(ProfileData|CpuProfiler)::(Add|prof_handler)|__pthread_sighandler|__restore"

int legacy_fail(struct legacy *l, const char *what)
{
    return error_set(l->e, PPROF_MALFORMED, "line %llu: %s", (unsigned long long)l->line_number, what);
}

/* ---- samples ---------------------------------------------------------------------------------- */

/* The sample at hand gets an address more. */
static int add_address(struct legacy *l, uint64_t address)
{
    uint32_t *place = address == IDMAP_FREE ? &l->at_top : idmap_place(&l->places, address, 0);
    int r = place ? 0 : -ENOMEM;
    if (r == 0 && *place == 0) {
        r = vec_append(&l->locations, (struct legacy_location){.address = address});
        *place = l->locations.n;
    }
    r = r < 0 ? r : vec_append(&l->stacks, *place - 1);
    vec_last(&l->samples)->n += r == 0;
    return r;
}

int legacy_sample(struct legacy *l, const int64_t *values)
{
    struct legacy_sample sample = {.from = l->stacks.n};
    memcpy(sample.values, values, l->n_types * sizeof *values);
    return vec_append(&l->samples, sample);
}

int legacy_addresses(struct legacy *l, struct bytes text, enum legacy_calls calls)
{
    const uint8_t *at = text.p, *end = text.p + text.n;
    int r = 0;
    while (r == 0 && at && (at = memmem(at, (size_t)(end - at), "0x", 2)) != NULL) {
        uint64_t address = 0;
        size_t digits = 0;
        for (at += 2; at < end && bytes_hex_value(*at) >= 0 && !(*at >= 'A' && *at <= 'F'); at++, digits++) {
            if (address >> 60)
                return legacy_fail(l, "an address of more than 64 bits");
            address = address << 4 | (uint64_t)bytes_hex_value(*at);
        }
        bool is_leaf = vec_last(&l->samples)->n == 0;
        if (digits > 0)
            r = add_address(l, address - (calls == LEGACY_ALL_RETURN ||
                                          (calls == LEGACY_CALLERS_RETURN && !is_leaf)));
    }
    return r;
}

/* ---- parts of lines --------------------------------------------------------------------------- */

static void skip_blanks(struct bytes *s)
{
    while (s->n > 0 && s->p[0] == ' ')
        *s = bytes_from(*s, 1);
}

bool legacy_number(struct bytes *s, int64_t *ret)
{
    skip_blanks(s);
    struct bytes rest = *s;
    bool is_negative = rest.n > 0 && rest.p[0] == '-';
    rest = bytes_from(rest, is_negative);
    size_t n = 0;
    *ret = 0;
    for (; n < rest.n && rest.p[n] >= '0' && rest.p[n] <= '9'; n++)
        if (__builtin_mul_overflow(*ret, 10, ret) || __builtin_add_overflow(*ret, rest.p[n] - '0', ret))
            return false;
    *ret = is_negative ? -*ret : *ret;
    *s = bytes_from(rest, n);
    return n > 0;
}

bool legacy_text(struct bytes *s, const char *text)
{
    skip_blanks(s);
    bool is_there = bytes_starts(*s, text);
    *s = bytes_from(*s, is_there ? strlen(text) : 0);
    return is_there;
}

bool legacy_setting(struct bytes line, struct bytes *ret_name, struct bytes *ret_value)
{
    const uint8_t *equal = line.n ? memchr(line.p, '=', line.n) : NULL;
    if (!equal)
        return false;
    const size_t at = (size_t)(equal - line.p);
    *ret_name = bytes_trim(bytes_of(line.p, at));
    *ret_value = bytes_trim(bytes_from(line, at + 1));
    return true;
}

/* Whether it is blank, or a comment. */
static bool is_nothing(struct bytes line)
{
    line = bytes_trim(line);
    return line.n == 0 || line.p[0] == '#';
}

static int64_t to_int(double value)
{
    return value >= 9223372036854775807.0    ? INT64_MAX
           : value <= -9223372036854775808.0 ? INT64_MIN
           : value != value                  ? 0
                                             : (int64_t)value;
}

/* ---- Go's counts: "goroutine profile: total 7" ------------------------------------------------- */

static bool is_count_header(struct bytes line, struct bytes *ret_type)
{
    const uint8_t *blank = line.n ? memchr(line.p, ' ', line.n) : NULL;
    if (!blank || blank == line.p)
        return false;
    *ret_type = bytes_of(line.p, (size_t)(blank - line.p));
    struct bytes rest = bytes_from(line, ret_type->n);
    int64_t total;
    return legacy_text(&rest, "profile: total") && legacy_number(&rest, &total) && rest.n == 0;
}

static int read_counts(struct legacy *l)
{
    int r = 0;
    struct bytes type;
    (void)is_count_header(l->line, &type);
    l->n_types = 1;
    l->period = 1;
    l->types[0] = l->period_type = (struct legacy_type){type, BYTES_LIT("count")};
    while (r == 0 && legacy_line(l)) {
        struct bytes rest = l->line;
        int64_t n;
        if (is_nothing(rest))
            continue;
        if (bytes_starts(rest, "---"))
            break;
        if (!legacy_number(&rest, &n) || !legacy_text(&rest, "@"))
            return legacy_fail(l, "no \"COUNT @ ADDRESSES\"");
        r = legacy_sample(l, &n);
        r = r < 0 ? r : legacy_addresses(l, rest, LEGACY_ALL_RETURN);
    }
    return r;
}

/* ---- heaps: "heap profile: 1: 2 [3: 4] @ heap/524288" ------------------------------------------ */

/* "OBJECTS: BYTES [OBJECTS: BYTES] @". */
static bool take_pairs(struct bytes *s, int64_t ret[4])
{
    return legacy_number(s, &ret[0]) && legacy_text(s, ":") && legacy_number(s, &ret[1]) &&
           legacy_text(s, "[") && legacy_number(s, &ret[2]) && legacy_text(s, ":") &&
           legacy_number(s, &ret[3]) && legacy_text(s, "]") && legacy_text(s, "@");
}

/* A sample of S bytes is seen with a probability of 1 - exp(-S / rate). */
void legacy_scale(int64_t *count, int64_t *size, int64_t rate)
{
    if (*count == 0 || *size == 0) {
        *count = *size = 0;
    } else if (rate > 1) {
        double average = (double)*size / (double)*count, by = 1 / (1 - exp(-average / (double)rate));
        *count = to_int((double)*count * by);
        *size = to_int((double)*size * by);
    }
}

/* What the kind in a header says: whether samples are scaled, and by what rate. */
static bool take_heap_kind(struct legacy *l, struct bytes kind, bool *ret_scales)
{
    static const struct {
        const char *name;
        bool scales;
        int64_t divided; /* the rate; 0: it is 1 */
    } kinds[] = {{"heapz_v2", true, 1}, {"heap_v2", true, 1}, {"heapprofile", false, 0}, {"heap", true, 2}};
    if (bytes_starts(kind, "growth") || bytes_starts(kind, "fragmentation")) {
        *ret_scales = false;
        l->period = 1;
        return true;
    }
    size_t n = 0;
    while (n < kind.n && (kind.p[n] == '_' || (kind.p[n] >= 'a' && kind.p[n] <= 'z') ||
                          (kind.p[n] >= '0' && kind.p[n] <= '9')))
        n++;
    struct bytes name = bytes_of(kind.p, n), rest = bytes_from(kind, n);
    int64_t rate = 0;
    if (legacy_text(&rest, "/"))
        (void)legacy_number(&rest, &rate);
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (bytes_is(name, kinds[i].name)) {
            *ret_scales = kinds[i].scales;
            l->period = kinds[i].divided ? rate / kinds[i].divided : 1;
            return true;
        }
    return false;
}

/* Objects and bytes of a sample as values; what it says of one object. */
static int put_pair(struct legacy *l, int64_t count, int64_t size, bool scales, int64_t *values,
                    int64_t *block_size)
{
    if (count == 0 && size != 0)
        return legacy_fail(l, "bytes of no object");
    if (count != 0) {
        *block_size = count == -1 ? (int64_t)(0 - (uint64_t)size) : size / count;
        if (scales)
            legacy_scale(&count, &size, l->period);
    }
    values[0] = count;
    values[1] = size;
    return 0;
}

static int read_heap_sample(struct legacy *l, bool scales, bool has_alloc)
{
    struct bytes rest = bytes_trim(l->line);
    int64_t pairs[4], values[LEGACY_TYPES_MAX], block_size = 0;
    if (!take_pairs(&rest, pairs))
        return legacy_fail(l, "no \"OBJECTS: BYTES [OBJECTS: BYTES] @ ADDRESSES\"");
    int r = has_alloc ? put_pair(l, pairs[2], pairs[3], scales, values, &block_size) : 0;
    r = r != 0 ? r : put_pair(l, pairs[0], pairs[1], scales, values + (has_alloc ? 2 : 0), &block_size);
    r = r != 0 ? r : legacy_sample(l, values);
    if (r != 0)
        return r;
    vec_last(&l->samples)->block_size = block_size;
    return legacy_addresses(l, rest, LEGACY_ALL_RETURN);
}

static int read_heap(struct legacy *l)
{
    static const struct legacy_type both[] = {{BYTES_LIT("alloc_objects"), BYTES_LIT("count")},
                                              {BYTES_LIT("alloc_space"), BYTES_LIT("bytes")},
                                              {BYTES_LIT("inuse_objects"), BYTES_LIT("count")},
                                              {BYTES_LIT("inuse_space"), BYTES_LIT("bytes")}},
                                    one[] = {{BYTES_LIT("objects"), BYTES_LIT("count")},
                                             {BYTES_LIT("space"), BYTES_LIT("bytes")}};
    struct bytes rest = bytes_from(l->line, strlen("heap profile:"));
    int64_t pairs[4];
    bool scales = false;
    if (!take_pairs(&rest, pairs))
        return legacy_fail(l, "no \"heap profile: OBJECTS: BYTES [OBJECTS: BYTES] @ KIND\"");
    skip_blanks(&rest);
    if (!take_heap_kind(l, rest, &scales))
        return legacy_fail(l, "an unknown kind of heap profile");
    bool has_alloc = scales || bytes_starts(rest, "heapprofile");
    has_alloc &= (pairs[2] != pairs[0] && pairs[2] != 0) || (pairs[3] != pairs[1] && pairs[3] != 0);
    l->n_types = has_alloc ? 4 : 2;
    memcpy(l->types, has_alloc ? both : one, l->n_types * sizeof *one);
    l->period_type = one[1];
    l->has_block_size = true;
    int r = 0;
    while (r == 0 && legacy_line(l) && !legacy_begins_map(l->line))
        r = is_nothing(l->line) ? 0 : read_heap_sample(l, scales, has_alloc);
    return r;
}

/* ---- contention: "--- contention:", "--- mutex:", "--- contentionz 1 ---" ----------------------- */

/* "name = NUMBER" lines in front. False: it is none. */
static bool take_setting(struct legacy *l, struct bytes line, int64_t *hz, int *r)
{
    struct bytes name, value;
    int64_t number = 0;
    if (!legacy_setting(line, &name, &value))
        return false;
    bool is_number = legacy_number(&value, &number);
    if (bytes_is(name, "cycles/second"))
        *hz = number;
    else if (bytes_is(name, "sampling period"))
        l->period = number;
    else if (bytes_is(name, "ms since reset"))
        is_number &= !__builtin_mul_overflow(number, 1000000, &l->duration_nanos);
    else if (!bytes_is(name, "discarded samples"))
        *r = legacy_fail(l, "an unknown setting");
    if (*r == 0 && !is_number)
        *r = legacy_fail(l, "the setting has no number");
    return true;
}

static int read_contention_sample(struct legacy *l, struct bytes line, int64_t hz)
{
    int64_t delay, count;
    if (!legacy_number(&line, &delay) || !legacy_number(&line, &count) || !legacy_text(&line, "@"))
        return legacy_fail(l, "no \"DELAY COUNT @ ADDRESSES\"");
    if (l->period > 0) {
        if (hz > 0)
            delay = to_int((double)delay * (double)l->period / ((double)hz / 1e9));
        count = (int64_t)((uint64_t)count * (uint64_t)l->period);
    }
    int r = legacy_sample(l, (int64_t[]){count, delay});
    return r < 0 ? r : legacy_addresses(l, line, LEGACY_ALL_RETURN);
}

static int read_contention(struct legacy *l)
{
    if (legacy_is_java(l))
        return legacy_read_java(l);
    int64_t hz = 0;
    int r = 0;
    bool is_head = true;
    l->n_types = 2;
    l->period = 1;
    l->types[0] = l->period_type = (struct legacy_type){BYTES_LIT("contentions"), BYTES_LIT("count")};
    l->types[1] = (struct legacy_type){BYTES_LIT("delay"), BYTES_LIT("nanoseconds")};
    while (r == 0 && legacy_line(l)) {
        struct bytes line = bytes_trim(l->line);
        if (is_nothing(line))
            continue;
        if (bytes_starts(line, "---"))
            break;
        is_head = is_head && take_setting(l, line, &hz, &r);
        if (!is_head)
            r = read_contention_sample(l, line, hz);
    }
    return r;
}

/* ---- threads: "--- threadz 1 ---" ---------------------------------------------------------------- */

static bool is_thread(struct bytes line)
{
    return line.n > 0 && memmem(line.p, line.n, "--- Thread ", 11) &&
           memmem(line.p, line.n, ") stack: ---", 12);
}

/* Takes the leaf's caller out of a stack. */
static void drop_caller(struct legacy *l, struct legacy_sample *s)
{
    uint32_t *stack = l->stacks.p + s->from;
    s->n--;
    memmove(stack + 1, stack + 2, (s->n - 1) * sizeof *stack);
}

/* The frame that a profiler's own signal leaves twice: the leaf, and where it would have returned to. */
static void drop_double_leaves(struct legacy *l)
{
    for (uint32_t i = 0; i < l->samples.n; i++) {
        struct legacy_sample *s = &l->samples.p[i];
        const uint32_t *stack = s->n > 1 ? l->stacks.p + s->from : NULL;
        if (stack && l->locations.p[stack[0]].address == l->locations.p[stack[1]].address + 1)
            drop_caller(l, s);
    }
}

/* The frames of one thread. Ends at the next one's line. */
static int read_thread(struct legacy *l)
{
    bool same = false;
    const int64_t one = 1;
    int r = legacy_sample(l, &one);
    while (r == 0 && legacy_line(l)) {
        struct bytes line = bytes_trim(l->line);
        if (bytes_starts(line, "---") || legacy_begins_map(line))
            break;
        if (line.n && memmem(line.p, line.n, "same as previous thread", 23))
            same = true;
        else
            r = legacy_addresses(l, line, LEGACY_CALLERS_RETURN);
    }
    if (r == 0 && (same || vec_last(&l->samples)->n == 0)) {
        l->samples.n--;
        if (l->samples.n > 0)
            vec_last(&l->samples)->values[0]++;
    }
    return r;
}

static int read_threads(struct legacy *l)
{
    int r = 0;
    l->n_types = 1;
    l->period = 1;
    l->types[0] = l->period_type = (struct legacy_type){BYTES_LIT("thread"), BYTES_LIT("count")};
    while (!is_thread(l->line) && !legacy_begins_map(l->line) && legacy_line(l))
        if (bytes_starts(l->line, "-"))
            break;
    while (r == 0 && l->line.n > 0 && !legacy_begins_map(l->line) &&
           !bytes_starts(l->line, "---- no stack trace for"))
        r = is_thread(l->line) ? read_thread(l)
            : l->rest.n > 0    ? legacy_fail(l, "no \"--- Thread … stack: ---\"")
                               : (legacy_line(l), 0);
    return r;
}

/* ---- CPU: words of 32 or 64 bits ------------------------------------------------------------------ */

struct words {
    struct bytes rest;
    bool is_wide, is_big;
};

static bool take_word(struct words *w, uint64_t *ret)
{
    size_t n = w->is_wide ? 8 : 4;
    uint64_t wide;
    uint32_t narrow;
    if (w->rest.n < n)
        return false;
    memcpy(&wide, w->rest.p, w->is_wide ? 8 : 4);
    memcpy(&narrow, w->rest.p, 4);
    *ret = w->is_wide  ? (w->is_big ? be64toh(wide) : le64toh(wide))
           : w->is_big ? be32toh(narrow)
                       : le32toh(narrow);
    w->rest = bytes_from(w->rest, n);
    return true;
}

/* "0 3 0 PERIOD 0", and the third of Java is 1. */
static bool take_cpu_header(struct bytes body, struct words *ret, uint64_t *ret_period, bool *ret_is_java)
{
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t head[5] = {1};
        bool is_whole = true;
        *ret = (struct words){.rest = body, .is_wide = i >> 1, .is_big = i & 1};
        for (uint32_t k = 0; k < ARRAY_LEN(head) && is_whole; k++)
            is_whole = take_word(ret, &head[k]);
        if (is_whole && head[0] == 0 && head[1] == 3 && head[2] <= 1 && head[3] > 0 && head[4] == 0) {
            *ret_period = head[3];
            *ret_is_java = head[2] == 1;
            return true;
        }
    }
    return false;
}

static int cpu_fail(struct legacy *l, const struct words *w, struct bytes body)
{
    return error_set(l->e, PPROF_MALFORMED, "cut off in a sample, before byte %zu",
                     (size_t)(w->rest.p - body.p));
}

static int read_cpu_samples(struct legacy *l, struct words *w, struct bytes body)
{
    uint64_t count, n, address;
    int r = 0;
    while (r == 0 && w->rest.n > 0) {
        if (!take_word(w, &count) || !take_word(w, &n) || n > w->rest.n / (w->is_wide ? 8 : 4))
            return cpu_fail(l, w, body);
        struct words after = *w;
        if (count == 0 && n == 1 && take_word(&after, &address) && address == 0) {
            *w = after;
            return 0;
        }
        r = legacy_sample(l, (int64_t[]){(int64_t)count, (int64_t)(count * (uint64_t)l->period)});
        for (uint64_t i = 0; i < n && r == 0; i++) {
            if (!take_word(w, &address))
                return cpu_fail(l, w, body);
            r = add_address(l, address - (i > 0 && !l->is_java));
        }
    }
    return r;
}

/* Where nearly all samples have one and the same caller of the leaf, it is the signal's handler: it goes. */
static int drop_handler(struct legacy *l)
{
    VEC(uint32_t) seen = {.budget = l->locations.budget};
    int r = vec_extend(&seen, l->locations.n);
    uint32_t handler = UINT32_MAX;
    for (uint32_t i = 0; i < l->samples.n && r == 0; i++) {
        const struct legacy_sample *s = &l->samples.p[i];
        if (s->n > 1 && ++seen.p[l->stacks.p[s->from + 1]] >= l->samples.n - l->samples.n / 32)
            handler = l->stacks.p[s->from + 1];
    }
    for (uint32_t i = 0; i < l->samples.n && handler != UINT32_MAX; i++) {
        struct legacy_sample *s = &l->samples.p[i];
        if (s->n > 1 && l->stacks.p[s->from + 1] == handler)
            drop_caller(l, s);
    }
    vec_release(&seen);
    return r;
}

static int read_cpu(struct legacy *l, struct bytes body)
{
    struct words words;
    uint64_t period = 0;
    if (!take_cpu_header(body, &words, &period, &l->is_java))
        return error_set(l->e, PPROF_MALFORMED, "no CPU profile: its header is cut off");
    l->n_types = 2;
    l->period = (int64_t)(period * 1000);
    l->types[0] = (struct legacy_type){BYTES_LIT("samples"), BYTES_LIT("count")};
    l->types[1] = l->period_type = (struct legacy_type){BYTES_LIT("cpu"), BYTES_LIT("nanoseconds")};
    int r = read_cpu_samples(l, &words, body);
    for (int i = 0; i < 2 && r == 0 && !l->is_java; i++)
        r = drop_handler(l);
    l->rest = words.rest;
    return r;
}

/* ---- kinds ------------------------------------------------------------------------------------- */

struct kind {
    bool (*begins)(struct bytes line);
    int (*read)(struct legacy *l);
    bool has_double_leaves;
    const char *drop, *keep;
};

static bool begins_count(struct bytes line)
{
    struct bytes type;
    return is_count_header(line, &type);
}

static bool begins_heap(struct bytes line)
{
    return bytes_starts(line, "heap profile:");
}

static bool begins_contention(struct bytes line)
{
    return bytes_starts(line, "--- contentionz ") || bytes_starts(line, "--- mutex:") ||
           bytes_starts(line, "--- contention:");
}

static bool begins_threads(struct bytes line)
{
    return bytes_starts(line, "--- threadz ") || is_thread(line);
}

static bool begins_java_heap(struct bytes line)
{
    return bytes_is(bytes_trim(line), "--- heapz 1 ---");
}

static const struct kind kinds[] = {
    {begins_heap, read_heap, false, DROP_ALLOCATORS, KEEP_RUNTIME},
    {begins_contention, read_contention, false, DROP_LOCKS, ""},
    {begins_threads, read_threads, true, DROP_PROFILER, ""},
    {begins_count, read_counts, false, DROP_PROFILER, ""},
    {begins_java_heap, legacy_read_java, false, DROP_ALLOCATORS, KEEP_RUNTIME},
};

/* The kind of a text by its first line that is no comment, which becomes the line at hand. */
static const struct kind *kind_of(struct legacy *l)
{
    while (legacy_line(l))
        if (!is_nothing(l->line))
            break;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (kinds[i].begins(l->line))
            return &kinds[i];
    return NULL;
}

bool pprof_is_legacy(struct bytes body)
{
    struct legacy l = {.rest = bytes_of(body.p, min_of(body.n, (size_t)65536))};
    struct words words;
    uint64_t period;
    bool is_java;
    return body.n > 0 && (take_cpu_header(body, &words, &period, &is_java) || kind_of(&l));
}

/* ---- writing ------------------------------------------------------------------------------------- */

static struct pprof_type write_type(struct pprof_writer *w, struct legacy_type type)
{
    uint32_t name = pprof_write_string(w, type.type);
    return (struct pprof_type){name, pprof_write_string(w, type.unit)};
}

static void write_samples(struct pprof_writer *w, struct legacy *l)
{
    struct pprof_label size = {.key = l->has_block_size ? pprof_write_string(w, BYTES_LIT("bytes")) : 0};
    for (uint32_t i = 0; i < l->samples.n; i++) {
        const struct legacy_sample *s = &l->samples.p[i];
        uint32_t *stack = s->n ? l->stacks.p + s->from : NULL;
        for (uint32_t k = 0; k < s->n; k++)
            stack[k] = l->locations.p[stack[k]].id;
        size.number = s->block_size;
        pprof_write_sample(w,
                           &(struct pprof_sample){.locations = stack,
                                                  .n_locations = s->n,
                                                  .values = s->values,
                                                  .labels = &size,
                                                  .n_labels = l->has_block_size},
                           l->n_types);
    }
}

/* Its function gets a number when the first location needs it. */
static void write_location(struct pprof_writer *w, struct legacy *l, const struct legacy_location *at,
                           uint64_t *n_functions)
{
    struct pprof_location location = {
        .id = at->id, .address = at->address, .mapping = at->mapping ? at->mapping - l->first_mapping : 0};
    struct legacy_function *f = at->function ? &l->functions.p[at->function - 1] : NULL;
    if (f && !f->id) {
        const uint32_t name = pprof_write_string(w, f->name);
        f->id = ++*n_functions;
        pprof_write_function(w, &(struct pprof_function){.id = f->id,
                                                         .name = name,
                                                         .system_name = name,
                                                         .filename = pprof_write_string(w, f->file)});
    }
    const struct pprof_line line = {.function = f ? (uint32_t)f->id : 0, .line = at->line};
    pprof_write_location(w, &location, &line, f != NULL);
}

static int compare_ids(const void *a, const void *b)
{
    const struct legacy_location *x = a, *y = b;
    return order_of(x->id, y->id);
}

static int write_all(struct legacy *l, const char *drop, const char *keep, struct budget *budget,
                     struct buffer *out)
{
    struct pprof_writer w;
    struct pprof once = {.period = l->period, .duration_nanos = l->duration_nanos};
    pprof_write_begin(&w, budget, out);
    for (uint32_t i = 0; i < l->n_types; i++) {
        struct pprof_type type = write_type(&w, l->types[i]);
        pprof_write_type(&w, &type);
    }
    once.period_type = write_type(&w, l->period_type);
    once.drop_frames = pprof_write_string(&w, bytes_str(drop));
    once.keep_frames = pprof_write_string(&w, bytes_str(keep));
    pprof_write_profile(&w, &once);
    for (uint32_t i = l->first_mapping; i < l->mappings.n; i++) {
        const struct legacy_mapping *m = &l->mappings.p[i];
        pprof_write_mapping(&w, &(struct pprof_mapping){.id = i + 1 - l->first_mapping,
                                                        .start = m->start,
                                                        .limit = m->limit,
                                                        .offset = m->offset,
                                                        .filename = pprof_write_string(&w, m->file),
                                                        .build_id = pprof_write_string(&w, m->build_id)});
    }
    write_samples(&w, l); /* by their places, which the next line changes */
    if (l->locations.n > 1)
        qsort(l->locations.p, l->locations.n, sizeof *l->locations.p, compare_ids);
    uint64_t n_functions = 0;
    for (uint32_t i = 0; i < l->locations.n; i++)
        if (l->locations.p[i].id)
            write_location(&w, l, &l->locations.p[i], &n_functions);
    return pprof_write_end(&w);
}

static int convert(struct legacy *l, struct bytes body, struct budget *budget, struct buffer *out)
{
    static const struct kind cpu = {.has_double_leaves = true, .drop = DROP_PROFILER, .keep = ""};
    const struct kind *kind = body.n > 0 && body.p[0] == 0 ? &cpu : kind_of(l);
    if (!kind)
        return error_set(l->e, PPROF_MALFORMED, "no profile of before pprof was protobuf");
    int r = kind == &cpu ? read_cpu(l, body) : kind->read(l);
    if (r == 0 && l->is_java) {
        r = legacy_java_locations(l);
    } else if (r == 0) {
        while (kind != &cpu && !legacy_begins_map(l->line) && legacy_line(l))
            ;
        r = legacy_read_map(l);
        if (r == 0 && kind->has_double_leaves)
            drop_double_leaves(l);
    }
    return r != 0 ? r : write_all(l, kind->drop, kind->keep, budget, out);
}

int pprof_from_legacy(struct bytes body, struct budget *budget, struct buffer *out, struct error *e)
{
    struct legacy l = {.rest = body, .e = e, .names = INTERN_INIT(budget)};
    l.functions.budget = l.locations.budget = l.stacks.budget = l.samples.budget = l.mappings.budget =
        l.places.budget = budget;
    int r = convert(&l, body, budget, out);
    idmap_release(&l.places);
    vec_release(&l.locations);
    vec_release(&l.stacks);
    vec_release(&l.samples);
    vec_release(&l.mappings);
    vec_release(&l.functions);
    intern_release(&l.names);
    buffer_release(&l.replaced);
    return r;
}
