/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sample is a head and the frames below it, leaf first, up to an empty line or the next head:
 *
 *     java 12688/12764 [002] 6544038.708352:     250000 cpu-clock:pppH:
 *             7f30a2b inner (inlined)
 *             7f30a2b outer+0x1f (/usr/lib/libfoo.so)
 *
 * -F leaves fields out, and without call chains the one frame stands behind the event. Nothing tells the
 * fields apart but what they look like, and a comm may look like all of them: so the head is taken apart from
 * the time on, or where there is none from the number that only [cpu], a period and an event follow. What
 * perf prints is in its tools/perf/builtin-script.c and util/evsel_fprintf.c (Linux 6.12).
 */
#include <errno.h>

#include "proto/base/macros.h"
#include "proto/base/quantity.h"
#include "proto/convert/names.h"
#include "proto/convert/stacks.h"
#include "proto/otlp/view/profiles.h"

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

static size_t count_digits(struct bytes word)
{
    size_t n = 0;
    while (n < word.n && is_digit(word.p[n]))
        n++;
    return n;
}

/* A decimal number of at most 18 digits, with a sign for pids; false: it is none. */
static bool take_number(struct bytes word, int64_t *ret)
{
    bool is_negative = word.n > 1 && word.p[0] == '-';
    struct bytes digits = bytes_from(word, is_negative);
    uint64_t value;
    if (digits.n > 18 || quantity_u64(digits, &value) < 0)
        return false;
    *ret = is_negative ? -(int64_t)value : (int64_t)value;
    return true;
}

/* ---- heads ------------------------------------------------------------------------------------ */

struct head {
    struct bytes who; /* all of it up to the time: the same for all samples of a thread on a CPU */
    struct bytes comm;
    int64_t pid, tid, cpu, period;
    bool has_pid, has_tid, has_cpu, has_time, has_period;
    uint64_t time; /* nanoseconds */
    struct bytes event, rest;
};

/* "6544038.708352:": seconds, and a fraction of up to nine digits. */
static bool take_time(struct bytes word, uint64_t *ret)
{
    size_t seconds = count_digits(word);
    if (seconds == 0 || seconds > 10 || seconds + 2 > word.n || word.p[seconds] != '.' ||
        word.p[word.n - 1] != ':')
        return false;
    struct bytes fraction = bytes_of(word.p + seconds + 1, word.n - seconds - 2);
    if (fraction.n == 0 || fraction.n > 9 || count_digits(fraction) != fraction.n)
        return false;
    int64_t whole = 0, part = 0;
    (void)take_number(bytes_of(word.p, seconds), &whole);
    (void)take_number(fraction, &part);
    for (size_t i = fraction.n; i < 9; i++)
        part *= 10;
    *ret = (uint64_t)whole * 1000000000u + (uint64_t)part;
    return true;
}

static bool take_cpu(struct bytes word, struct head *h)
{
    return word.n > 2 && word.p[0] == '[' && word.p[word.n - 1] == ']' &&
           take_number(bytes_of(word.p + 1, word.n - 2), &h->cpu);
}

/* "PID/TID", or the thread's number alone, as perf prints by default. */
static bool take_ids(struct bytes word, struct head *h)
{
    const uint8_t *slash = word.n ? memchr(word.p, '/', word.n) : NULL;
    size_t n = slash ? (size_t)(slash - word.p) : 0;
    h->has_pid = slash != NULL;
    h->has_tid = take_number(slash ? bytes_from(word, n + 1) : word, &h->tid) &&
                 (!slash || take_number(bytes_of(word.p, n), &h->pid));
    h->has_pid &= h->has_tid;
    return h->has_tid;
}

static bool is_event(struct bytes word)
{
    return word.n > 1 && word.p[word.n - 1] == ':';
}

/* "[PERIOD] EVENT:", and what is behind; without an event all is. */
static void take_event(struct bytes text, struct head *h)
{
    struct bytes rest = text, word = bytes_word(&rest);
    h->rest = text;
    h->has_period = take_number(word, &h->period);
    if (h->has_period)
        word = bytes_word(&rest);
    if (is_event(word)) {
        h->event = bytes_of(word.p, word.n - 1);
        h->rest = rest;
    } else {
        h->has_period = false;
    }
}

/* COMM PID/TID [CPU] FLAGS, of which all may be missing: the last number but for flags is the thread's. */
static void take_who(struct bytes who, struct head *h)
{
    struct bytes rest = who, word;
    h->who = who;
    h->comm = bytes_trim(who);
    while ((word = bytes_word(&rest)).n > 0) {
        struct head ids = {0};
        struct bytes before = bytes_trim(bytes_of(who.p, (size_t)(word.p - who.p)));
        if (take_cpu(word, h)) {
            h->has_cpu = true;
            h->comm = h->has_tid ? h->comm : before;
        } else if (!h->has_cpu && take_ids(word, &ids)) {
            h->pid = ids.pid;
            h->tid = ids.tid;
            h->has_pid = ids.has_pid;
            h->has_tid = true;
            h->comm = before;
        }
    }
}

/* Without a time: the first number behind which stand [CPU], a period and an event, each of which may be
 * missing, but not all. */
static bool take_timeless(struct bytes line, struct head *h)
{
    struct bytes rest = line, word;
    while ((word = bytes_word(&rest)).n > 0) {
        struct head ids = {0};
        if (!take_ids(word, &ids))
            continue;
        struct bytes after = rest, behind = rest, next = bytes_word(&behind);
        bool has_cpu = take_cpu(next, &ids);
        if (has_cpu)
            after = behind;
        take_event(after, h);
        if (h->event.n == 0 && (bytes_trim(h->rest).n > 0 || (!has_cpu && !ids.has_pid)))
            continue;
        take_who(bytes_of(line.p, (size_t)(after.p - line.p)), h);
        return true;
    }
    return false;
}

static bool take_head(struct bytes line, struct head *ret)
{
    struct bytes rest = line, word;
    *ret = (struct head){0};
    while ((word = bytes_word(&rest)).n > 0)
        if (take_time(word, &ret->time)) {
            ret->has_time = true;
            take_who(bytes_of(line.p, (size_t)(word.p - line.p)), ret);
            take_event(rest, ret);
            return true;
        }
    return take_timeless(line, ret);
}

/* "cycles:" alone, of -F event,ip,sym; or who it was and no more, of -F comm,tid,ip,sym. */
static bool take_part(struct bytes line, struct head *ret)
{
    *ret = (struct head){0};
    take_event(line, ret);
    if (ret->event.n > 0)
        return true;
    take_who(line, ret);
    struct head last = {0};
    struct bytes text = bytes_trim(line);
    return ret->has_tid && take_ids(bytes_after_last(text, ' '), &last);
}

/* ---- frames ----------------------------------------------------------------------------------- */

struct frame {
    uint64_t address;
    struct bytes symbol, file; /* empty: not known */
    bool is_inlined;
};

/* The group in parentheses at the end, behind a blank: "(/memfd:doublemapper (deleted))" is one. Takes it
 * off. */
static struct bytes take_file(struct bytes *text)
{
    size_t depth = 0;
    if (text->n == 0 || text->p[text->n - 1] != ')')
        return (struct bytes){0};
    for (size_t i = text->n; i-- > 0;) {
        depth += text->p[i] == ')';
        depth -= text->p[i] == '(';
        if (depth == 0) {
            if (i > 0 && !is_blank(text->p[i - 1]))
                return (struct bytes){0}; /* "main(int)" */
            struct bytes file = bytes_of(text->p + i + 1, text->n - i - 2);
            *text = bytes_trim(bytes_of(text->p, i));
            return file;
        }
    }
    return (struct bytes){0};
}

/* Without "+0x1f". */
static struct bytes without_offset(struct bytes text)
{
    size_t i = text.n;
    while (i > 0 && bytes_hex_value(text.p[i - 1]) >= 0)
        i--;
    return i > 3 && i < text.n && memcmp(text.p + i - 3, "+0x", 3) == 0 ? bytes_of(text.p, i - 3) : text;
}

static bool take_frame(struct bytes line, struct frame *ret)
{
    struct bytes rest = line, word = bytes_word(&rest);
    *ret = (struct frame){0};
    if (!bytes_hex(word, &ret->address))
        return false;
    rest = bytes_trim(rest);
    ret->file = take_file(&rest);
    ret->is_inlined = bytes_is(ret->file, "inlined");
    ret->file =
        ret->is_inlined || bytes_is(ret->file, "[unknown]") ? (struct bytes){0} : without_offset(ret->file);
    ret->symbol = bytes_is(rest, "[unknown]") ? (struct bytes){0} : without_offset(rest);
    return true;
}

struct source {
    struct bytes file; /* empty: not known */
    int64_t line;
    bool is_inlined;
};

/* "  file.c:12", below a frame, of -F +srcline; "??:0" is not known. Of an inlined frame "(inlined)" stands
 * here then, not behind its symbol. */
static bool take_source(struct bytes line, struct source *ret)
{
    struct bytes text = bytes_trim(line), inlined = BYTES_LIT(" (inlined)");
    *ret = (struct source){.is_inlined = bytes_ends(text, " (inlined)")};
    text.n -= ret->is_inlined ? inlined.n : 0;
    size_t at = text.n;
    while (at > 0 && is_digit(text.p[at - 1]))
        at--;
    if (at < 2 || text.p[at - 1] != ':' || !take_number(bytes_from(text, at), &ret->line))
        return false;
    if (ret->line > 0)
        ret->file = bytes_of(text.p, at - 1);
    return true;
}

static bool is_kernel(const struct frame *f)
{
    struct bytes file = f->file;
    return f->address >> 63 || bytes_starts(file, "[kernel") || bytes_starts(file, "[guest.kernel") ||
           (file.n > 3 && bytes_ends(file, ".ko")) || bytes_is(bytes_after_last(file, '/'), "vmlinux");
}

static const char *frame_type(const struct frame *f)
{
    return is_kernel(f) ? "kernel" : mapping_is_code(f->file) ? "native" : stacks_runtime(f->symbol);
}

/* Lines of one location at most; further inlined frames begin another. */
#define INLINED_MAX 31u

/* The lines of one location: inlined frames, the one that they are in, each with its source below. */
static uint32_t put_location(struct stacks *s, struct bytes written)
{
    struct build_line lines[INLINED_MAX + 1];
    struct bytes rest = written, line;
    struct frame f = {0}, next;
    uint64_t number = 0;
    uint32_t n = 0, attr = 0;
    while (stacks_line(&rest, &line, &number) && n < ARRAY_LEN(lines)) {
        struct bytes after = rest, below = {0};
        struct source source = {0};
        if (!take_frame(line, &next))
            continue;
        f = next;
        if (stacks_line(&after, &below, &number))
            (void)take_source(below, &source);
        struct build_function function = {.name = stacks_string(s, f.symbol),
                                          .filename = stacks_string(s, source.file)};
        if (function.name)
            lines[n++] =
                (struct build_line){.function = build_function(s->build, &function), .line = source.line};
    }
    const char *type = frame_type(&f);
    if (type)
        attr = stacks_frame_type(s, type);
    struct build_mapping mapping = {.filename = stacks_string(s, f.file)};
    return build_location(s->build, &(struct build_location){
                                        .mapping = mapping.filename ? build_mapping(s->build, &mapping) : 0,
                                        .address = f.address,
                                        .lines = lines,
                                        .n_lines = n,
                                        .attrs = &attr,
                                        .n_attrs = type != NULL});
}

/* "1fffffffffffffffff main": of no machine that perf runs on. */
static bool is_no_address(struct bytes line)
{
    struct bytes word = bytes_word(&line);
    size_t n = 0;
    while (n < word.n && bytes_hex_value(word.p[n]) >= 0)
        n++;
    return n == word.n && n > 16;
}

static bool is_source(struct bytes line, struct source *ret)
{
    struct frame f;
    return line.n > 2 && is_blank(line.p[0]) && !take_frame(line, &f) && take_source(line, ret);
}

/* The location that begins with a line; takes off `rest` what else belongs to it. *ret_frames: of it. */
static struct bytes next_location(struct bytes line, struct bytes *rest, uint64_t *number,
                                  uint32_t *ret_frames)
{
    struct bytes all = line, next, after = *rest;
    struct frame f;
    struct source source;
    uint64_t at = *number;
    bool expects_frame = take_frame(line, &f) && f.is_inlined;
    for (*ret_frames = 1; stacks_line(&after, &next, &at);) {
        bool is_frame = expects_frame && *ret_frames < INLINED_MAX && next.n > 0 && is_blank(next.p[0]) &&
                        take_frame(next, &f);
        if (!is_frame && !is_source(next, &source))
            break;
        *ret_frames += is_frame;
        expects_frame = is_frame ? f.is_inlined : expects_frame || source.is_inlined;
        all.n = (size_t)(next.p + next.n - all.p);
        *rest = after;
        *number = at;
    }
    return all;
}

static void put_frame(struct stacks *s, struct bytes written)
{
    bool is_new;
    uint32_t frame = stacks_frame(s, bytes_trim(written), &is_new);
    if (frame == INTERN_NONE)
        return;
    if (is_new)
        s->locations.p[frame] = put_location(s, bytes_trim(written));
    if (vec_append(&s->stack, s->locations.p[frame]) < 0)
        s->failed = -ENOMEM;
}

/* ---- samples ---------------------------------------------------------------------------------- */

struct reading {
    struct stacks *s;
    struct head head;
    bool is_open;
    uint32_t n_frames;    /* of what is open */
    uint64_t first, last; /* times */
    bool has_time, has_frames, has_branches;
};

/* "0x401136/0x401150/P/-/-/0", "main+0x4/work/-/-/-/2": a branch (-F brstack): from, to, and letters of three
 * things known of it. */
static bool is_branch(struct bytes word)
{
    uint32_t letters = 0;
    for (size_t i = 1; i + 2 < word.n && letters < 3; i++) {
        bool is_letter = word.p[i] == '/' && word.p[i + 2] == '/';
        letters = is_letter ? letters + 1 : 0;
        i += is_letter;
    }
    return letters == 3;
}

/* Of the clocks of CPUs and tasks the period is nanoseconds of CPU time. */
static int type_of(struct stacks *s, const struct head *h, uint32_t *ret, struct error *e)
{
    bool is_clock =
        h->has_period && (bytes_starts(h->event, "cpu-clock") || bytes_starts(h->event, "task-clock"));
    struct bytes event = h->event.n ? h->event : BYTES_LIT("samples");
    struct bytes unit = h->has_period ? BYTES_LIT("count")
                        : h->event.n  ? BYTES_LIT("samples")
                                      : BYTES_LIT("count");
    return is_clock ? stacks_type(s, BYTES_LIT("cpu"), BYTES_LIT("nanoseconds"), ret, e)
                    : stacks_type(s, event, unit, ret, e);
}

static uint32_t attributes_of(struct stacks *s, const struct head *h)
{
    uint32_t attrs[4], n = 0, known = s->heads.n, head = intern_add(&s->heads, h->who);
    if (head == INTERN_NONE || (head == known && vec_append(&s->head_attrs, 0) < 0)) {
        s->failed = -ENOMEM;
        return 0;
    }
    if (head < known)
        return s->head_attrs.p[head];
    if (h->comm.n)
        attrs[n++] = build_attribute_text(s->build, "thread.name", stacks_text(s, h->comm));
    if (h->has_pid)
        attrs[n++] = build_attribute_int(s->build, "process.pid", h->pid);
    if (h->has_tid)
        attrs[n++] = build_attribute_int(s->build, "thread.id", h->tid);
    if (h->has_cpu)
        attrs[n++] = build_attribute_int(s->build, "cpu.logical_number", h->cpu);
    return s->head_attrs.p[head] = stacks_attrs(s, attrs, n);
}

/* Ends the sample that is open. */
static int put_sample(struct reading *r, struct error *e)
{
    const struct head *h = &r->head;
    uint32_t type;
    if (!r->is_open)
        return 0;
    r->is_open = false;
    int done = type_of(r->s, h, &type, e);
    if (done != 0)
        return done;
    r->has_frames |= r->s->stack.n > 0;
    uint32_t stack = build_stack(r->s->build, r->s->stack.p, r->s->stack.n);
    done = stacks_add(r->s, type, stack, attributes_of(r->s, h), h->has_period ? h->period : 1);
    if (done == FROM_TEXT_MALFORMED)
        error_set(e, done, "the periods of its stack are 2^63 and more");
    if (h->has_time) {
        r->first = r->has_time ? min_of(r->first, h->time) : h->time;
        r->last = r->has_time ? max_of(r->last, h->time) : h->time;
        r->has_time = true;
    }
    return done;
}

static int begin_sample(struct reading *r, const struct head *h, struct error *e)
{
    struct frame f;
    int done = put_sample(r, e);
    struct bytes rest = bytes_trim(h->rest);
    if (done != 0 || bytes_starts(rest, "PERF_RECORD_") || bytes_starts(h->event, "PERF_RECORD_"))
        return done; /* what --show-mmap-events and the like print between */
    r->head = *h;
    r->is_open = true;
    r->n_frames = 0;
    vec_clear(&r->s->stack);
    /* A tracepoint's text may begin with what looks like a number: addresses are longer, or have a file. */
    if (take_frame(rest, &f) && (f.file.n || rest.p[rest.n - 1] == ')' || f.address > 0xffff))
        put_frame(r->s, rest);
    else
        r->has_branches |= is_branch(bytes_word(&rest));
    return 0;
}

static int read_line(struct reading *r, struct bytes line, struct bytes *rest, uint64_t *number,
                     struct error *e)
{
    struct head h;
    struct frame f;
    uint32_t frames;
    if (bytes_trim(line).n == 0)
        return put_sample(r, e);
    if (line.p[0] == '#')
        return 0;
    bool is_inside = is_blank(line.p[0]);
    if (is_inside && is_no_address(line))
        return error_set(e, FROM_TEXT_MALFORMED, "an address of more than 16 digits");
    struct bytes words = line;
    if (is_inside && is_branch(bytes_word(&words))) {
        r->has_branches = true;
        return 0;
    }
    if (line.p[0] != '\t' && (take_head(line, &h) || (!is_inside && take_part(line, &h))))
        return begin_sample(r, &h, e);
    is_inside |=
        r->is_open && take_frame(line, &f) && (f.file.n || f.is_inlined); /* pasted without its blanks */
    if (!is_inside || !take_frame(line, &f))
        return is_inside && r->is_open
                   ? 0 /* other fields below a head: registers, branches */
                   : error_set(e, FROM_TEXT_MALFORMED, "neither a sample's head nor a frame");
    if (!r->is_open) {
        r->head = (struct head){0}; /* -F ip,sym */
        r->is_open = true;
        r->n_frames = 0;
        vec_clear(&r->s->stack);
    }
    line = next_location(line, rest, number, &frames);
    r->n_frames += frames;
    if (r->n_frames > PROFILES_STACK_FRAMES_MAX)
        return error_set(e, FROM_TEXT_MALFORMED, "more than %u frames of one stack",
                         PROFILES_STACK_FRAMES_MAX);
    put_frame(r->s, line);
    return 0;
}

/* " a b c 4" is a folded stack: nothing that perf prints of a frame ends with a number that stands alone. */
static bool is_frame_alone(struct bytes line)
{
    struct bytes count = bytes_after_last(bytes_trim(line), ' ');
    struct frame f;
    return take_frame(line, &f) && (count_digits(count) < count.n || count.n == bytes_trim(line).n);
}

bool perf_script_begins(struct bytes line, struct bytes next)
{
    struct head h;
    if (line.n == 0 || line.p[0] == '\t')
        return is_frame_alone(line);
    return take_head(line, &h) || (next.n > 0 && is_blank(next.p[0]) && is_frame_alone(next) &&
                                   (take_part(line, &h) || is_frame_alone(line)));
}

int from_perf_script(struct stacks *s, struct bytes text, const struct from_text_options *options,
                     struct error *e)
{
    struct reading reading = {.s = s};
    struct bytes line;
    uint64_t number = 0;
    int r = 0;
    while (r == 0 && s->failed == 0 && stacks_line(&text, &line, &number))
        r = read_line(&reading, line, &text, &number, e);
    if (r == 0)
        r = put_sample(&reading, e);
    if (r == 0 && reading.has_branches && !reading.has_frames)
        r = error_set(e, FROM_TEXT_MALFORMED,
                      "branches (brstack) and no stack: record with --call-graph, print with -F +ip,sym");
    s->lasted = reading.last - reading.first;
    return r == FROM_TEXT_MALFORMED ? error_prefix(e, r, "line %llu: ", (unsigned long long)number) : r;
}
