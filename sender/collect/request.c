#include "sender/collect/request.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "sender/collect/text.h"
#include "sender/context/record.h"
#include "sender/symbolize/places.h"

#define SCHEMA_URL BYTES_LIT("https://opentelemetry.io/schemas/1.37.0")
#define SCOPE_NAME BYTES_LIT("profsend")

/* A stack already in the request: the same frames of another process may have other names (generated code).
 */
struct known_stack {
    const struct process *process;
    uint32_t index;
};

struct writer {
    struct build *b;
    const struct collector *c;
    const struct request_facts *facts;
    struct known_stack *stack; /* by stack number of the window */
    uint64_t *times;
    int64_t *values;
    uint64_t hits; /* in the request being built */
};

static uint32_t string(struct writer *w, struct bytes s)
{
    char scratch[TEXT_MAX];
    return build_string(w->b, text_clean(s, scratch));
}

static uint32_t attribute(struct writer *w, const char *key, struct bytes value)
{
    char scratch[TEXT_MAX];
    return build_attribute_text(w->b, key, text_clean(value, scratch));
}

static uint32_t file_mapping(struct writer *w, const struct description *d)
{
    const struct elf *elf = &d->binary->elf;
    uint32_t attrs[3], n = 0;
    char hex[2 * ELF_BUILD_ID_MAX + 1];
    for (uint32_t i = 0; i < elf->build_id_n; i++)
        snprintf(hex + 2 * i, 3, "%02x", elf->build_id[i]);
    if (elf->build_id_n)
        attrs[n++] = attribute(w, "process.executable.build_id.gnu", bytes_str(hex));
    if (*elf->go_id)
        attrs[n++] = attribute(w, "process.executable.build_id.go", bytes_str(elf->go_id));
    if (*d->binary->htlhash)
        attrs[n++] = attribute(w, "process.executable.build_id.htlhash", bytes_str(d->binary->htlhash));
    struct build_mapping m = {
        .filename = string(w, bytes_str(d->binary->name)), .attrs = attrs, .n_attrs = n};
    if (d->segment) {
        m.memory_start = d->segment->address;
        m.memory_limit = d->segment->address + d->segment->memory_size;
        m.file_offset = d->segment->file_offset;
    }
    return build_mapping(w->b, &m);
}

static uint32_t kernel_mapping(struct writer *w, const struct description *d)
{
    uint32_t attrs[1], n = 0;
    if (bytes_is(d->module, "vmlinux") && w->facts->kernel_build_id.n)
        attrs[n++] = attribute(w, "process.executable.build_id.gnu", w->facts->kernel_build_id);
    return build_mapping(
        w->b, &(struct build_mapping){.filename = string(w, d->module), .attrs = attrs, .n_attrs = n});
}

static struct build_line inlined_line(struct writer *w, const struct binary_name *name, uint32_t i)
{
    struct binary_line line = binaries_line(w->c->binaries, name, i);
    struct build_function f = {.name = string(w, line.name),
                               .system_name = string(w, line.system_name),
                               .filename = string(w, line.file),
                               .start_line = line.start_line};
    return (struct build_line){.function = build_function(w->b, &f), .line = line.line};
}

static uint32_t location(struct writer *w, const struct process *process, const struct frame *frame)
{
    struct description d;
    collector_describe(w->c, process, frame, &d);
    uint32_t type = attribute(w, "profile.frame.type", bytes_str(d.type));
    struct build_line line[PLACES_LINES_MAX];
    struct build_location l = {.address = d.address, .attrs = &type, .n_attrs = 1};
    if (d.binary)
        l.mapping = file_mapping(w, &d);
    else if (d.module.p)
        l.mapping = kernel_mapping(w, &d);
    l.lines = line;
    if (d.inlined.n_lines) {
        for (; l.n_lines < d.inlined.n_lines; l.n_lines++)
            line[l.n_lines] = inlined_line(w, &d.inlined, l.n_lines);
    } else if (d.name.n) {
        struct build_function f = {.name = string(w, d.name), .filename = string(w, d.file)};
        line[l.n_lines++] = (struct build_line){.function = build_function(w->b, &f), .line = d.line};
    }
    return build_location(w->b, &l);
}

/* A tracepoint that several programs listen to calls them by a function of its own, which is on top of the
 * kernel's stack then and no part of the story. */
static bool is_tracing(const struct writer *w, const struct process *process, const struct frame *frame)
{
    static const char prefix[] = "__traceiter_";
    struct description d;
    if (frame->kind != FRAME_KERNEL)
        return false;
    collector_describe(w->c, process, frame, &d);
    return d.name.n > sizeof prefix && memcmp(d.name.p, prefix, sizeof prefix - 1) == 0;
}

static uint32_t stack(struct writer *w, const struct window_sample *s)
{
    struct known_stack *known = &w->stack[s->stack];
    if (known->process == s->process)
        return known->index;
    uint32_t n, locations[FRAMES_MAX + 1];
    const struct frame *frame = window_frames(&w->c->window, s->stack, &n);
    n = min_of(n, (uint32_t)FRAMES_MAX);
    if (n > 1 && is_tracing(w, s->process, frame)) {
        frame++;
        n--;
    }
    for (uint32_t i = 0; i < n; i++)
        locations[i] = location(w, s->process, &frame[i]);
    *known = (struct known_stack){.process = s->process, .index = build_stack(w->b, locations, n)};
    return known->index;
}

/* Frames a C library has below `main`. */
#define BELOW_MAIN 3u

/* profsend's own word for a stack that is not whole, so that whoever adds up can tell; none for a whole one.
 */
static const char *const incomplete[] = {
    [WINDOW_TOO_DEEP] = "depth",
    [WINDOW_UNREADABLE] = "unreadable",
    [WINDOW_NO_WAY_ON] = "cut",
    [WINDOW_GUESSED] = "guessed",
};

/* Whether the way on was lost only below `main`: in a C library without frame information (musl). */
static bool reaches_main(const struct collector *c, const struct window_sample *s)
{
    uint32_t n;
    const struct frame *frame = window_frames(&c->window, s->stack, &n);
    for (uint32_t i = n; i > 0 && n - i < BELOW_MAIN; i--) {
        struct description d;
        collector_describe(c, s->process, &frame[i - 1], &d);
        if (bytes_is(d.name, "main"))
            return true;
    }
    return false;
}

/* Why a thread was off the CPU, and what a device did: profsend's own words. */
static const char *const waits[SAMPLE_WAITS] = {
    [SAMPLE_WAIT_PREEMPTED] = "preempted",
    [SAMPLE_WAIT_SLEEP] = "sleep",
    [SAMPLE_WAIT_DISK] = "disk",
    [SAMPLE_WAIT_STOPPED] = "stopped",
};
static const char *const locks[SAMPLE_LOCKS] = {
    [SAMPLE_LOCK_WOKEN] = "woken",
    [SAMPLE_LOCK_TIMEOUT] = "timeout",
    [SAMPLE_LOCK_INTERRUPTED] = "interrupted",
    [SAMPLE_LOCK_CHANGED] = "changed",
};
static const char *const directions[] = {[SAMPLE_BLOCK_READ] = "read", [SAMPLE_BLOCK_WRITE] = "write"};

/* The attribute of `detail`: profsend.off_cpu.state, profsend.lock.state, or disk.io.direction (semantic
 * conventions, "System").
 */
static uint32_t detail_attr(struct writer *w, const struct window_sample *s, uint32_t *to)
{
    if (s->source == SAMPLE_FROM_WAIT && s->detail < SAMPLE_WAITS)
        *to = attribute(w, "profsend.off_cpu.state", bytes_str(waits[s->detail]));
    else if (s->source == SAMPLE_FROM_LOCK && s->detail < SAMPLE_LOCKS)
        *to = attribute(w, "profsend.lock.state", bytes_str(locks[s->detail]));
    else if (s->source == SAMPLE_FROM_BLOCK && s->detail < ARRAY_LEN(directions))
        *to = attribute(w, "disk.io.direction", bytes_str(directions[s->detail]));
    else
        return 0;
    return 1;
}

/* Attributes of a thread's context, at most, in a sample; of several with one name the last counts. */
#define CONTEXT_ATTRS 32u
/* Attributes of ours in a sample. */
#define SAMPLE_OURS 5u

static bool is_sample_s(struct bytes key)
{
    return bytes_is(key, "thread.name") || bytes_is(key, "thread.id") ||
           bytes_is(key, "cpu.logical_number") || bytes_is(key, "disk.io.direction") ||
           bytes_starts(key, "profsend.");
}

/* What the thread said of its work: keys it may not name and text that is no UTF-8 are left out. Returns how
 * many attributes were added. */
static uint32_t context_attrs(struct writer *w, const struct process *process, const struct record *record,
                              uint32_t to[CONTEXT_ATTRS])
{
    struct attr found[CONTEXT_ATTRS];
    uint32_t n = 0, i;
    uint8_t number;
    struct bytes rest = record->attributes, value;
    while (process->identity && record_next(&rest, &number, &value)) {
        struct bytes key =
            number < process->identity->n_keys ? process->identity->key[number] : BYTES_LIT("");
        if (key.n == 0 || is_sample_s(key) || !bytes_is_utf8(value))
            continue;
        for (i = 0; i < n && !bytes_eq(found[i].key, key);)
            i++;
        if (i == CONTEXT_ATTRS)
            continue;
        found[i] = (struct attr){key, {.kind = ATTR_STRING, .text = value}};
        n = max_of(n, i + 1);
    }
    for (i = 0; i < n; i++)
        to[i] = build_attribute(w->b, found[i].key, &found[i].value, 0);
    return n;
}

/* The link of a sample, 0 for none; adds the attributes of its context. */
static uint32_t link_of(struct writer *w, const struct window_sample *s, uint32_t *attrs, uint32_t *n_attrs)
{
    struct record record;
    struct bytes context = window_context(&w->c->window, s->context);
    if (!record_read(context.p, context.n, &record))
        return 0;
    *n_attrs += context_attrs(w, s->process, &record, attrs + *n_attrs);
    return record.is_linked ? build_link(w->b, record.trace_id, record.span_id) : 0;
}

/* A hit stands for those that were not taken, too. */
static int64_t scaled(const struct kind *kind, uint64_t value)
{
    double v = (double)value / kind->share;
    return v < 9e18 ? (int64_t)(v + 0.5) : INT64_MAX;
}

static void sample(struct writer *w, const struct window_sample *s)
{
    const struct window *window = &w->c->window;
    const struct kind *kind = &w->facts->kinds->at[s->source];
    uint32_t n_attrs = 3, attrs[SAMPLE_OURS + CONTEXT_ATTRS] = {
                              attribute(w, "thread.name", bytes_str(s->comm)),
                              build_attribute_int(w->b, "thread.id", s->tid),
                              build_attribute_int(w->b, "cpu.logical_number", s->cpu),
                          };
    n_attrs += detail_attr(w, s, &attrs[n_attrs]);
    if (s->incomplete != WINDOW_COMPLETE && !reaches_main(w->c, s))
        attrs[n_attrs++] = attribute(w, "profsend.stack.incomplete", bytes_str(incomplete[s->incomplete]));
    uint32_t n = 0, link = link_of(w, s, attrs, &n_attrs);
    for (uint32_t at = s->first_time; at != WINDOW_NO_TIME; at = window->time[at].next) {
        w->values[n] = scaled(kind, window->time[at].value);
        w->times[n++] = window->time[at].ns + (uint64_t)w->facts->realtime_offset;
    }
    /* Each hit of the clock or of a plain probe counts one: then times alone say it. */
    bool is_count = kind->how == KIND_CLOCK || kind->how == KIND_PROBE;
    build_sample(w->b, &(struct build_sample){.stack = stack(w, s),
                                              .link = link,
                                              .attrs = attrs,
                                              .n_attrs = n_attrs,
                                              .values = w->values,
                                              .n_values = is_count ? 0 : n,
                                              .timestamps = w->times,
                                              .n_timestamps = n});
    w->hits += n;
}

static void text_attr(struct attr *attrs, uint32_t *n, const char *key, struct bytes value)
{
    if (value.n)
        attrs[(*n)++] = (struct attr){bytes_str(key), {.kind = ATTR_STRING, .text = value}};
}

/* Kernel threads are the kernel's work: they have no executable to be named after. */
static struct bytes service_name(const struct process *p)
{
    if (p->service_name.n)
        return p->service_name;
    return p->is_kernel ? BYTES_LIT("kernel") : p->name;
}

static void int_attr(struct attr *attrs, uint32_t *n, const char *key, uint32_t value)
{
    if (value != UINT32_MAX)
        attrs[(*n)++] = (struct attr){bytes_str(key), {.kind = ATTR_INT, .integer = value}};
}

/* process.creation.time: ISO 8601, UTC (semantic conventions, "Process"). */
static struct bytes creation_time(const struct writer *w, const struct process *p, char to[32])
{
    uint64_t unix_ns = p->start + (uint64_t)w->facts->boot_offset;
    time_t seconds = (time_t)(unix_ns / NSEC_PER_SEC);
    struct tm utc;
    size_t n = p->start && gmtime_r(&seconds, &utc) ? strftime(to, 32, "%Y-%m-%dT%H:%M:%S", &utc) : 0;
    if (n)
        n += (size_t)snprintf(to + n, 32 - n, ".%03uZ", (unsigned)(unix_ns % NSEC_PER_SEC / NSEC_PER_MSEC));
    return bytes_of(to, n);
}

/* Attributes of ours, at most, in a resource. */
#define RESOURCE_OURS 20u

static void resource(struct writer *w, const struct process *p)
{
    struct attr attrs[RESOURCE_OURS + IDENTITY_MAX];
    uint32_t n = 0;
    char scratch[4][TEXT_MAX], created[32];
    const struct request_facts *f = w->facts;
    attrs[n++] = (struct attr){BYTES_LIT("process.pid"), {.kind = ATTR_INT, .integer = p->pid}};
    if (!p->is_kernel) {
        text_attr(attrs, &n, "process.executable.name", text_clean(p->name, scratch[0]));
        text_attr(attrs, &n, "process.executable.path", text_clean(p->path, scratch[1]));
        int_attr(attrs, &n, "process.parent_pid", p->parent);
        int_attr(attrs, &n, "process.real_user.id", p->user);
        text_attr(attrs, &n, "process.creation.time", creation_time(w, p, created));
    }
    text_attr(attrs, &n, "container.id", p->container_id);
    text_attr(attrs, &n, "service.name", text_clean(service_name(p), scratch[2]));
    text_attr(attrs, &n, "host.name", text_clean(f->host_name, scratch[3]));
    text_attr(attrs, &n, "host.id", f->host_id);
    text_attr(attrs, &n, "host.arch", f->host_arch);
    text_attr(attrs, &n, "os.type", BYTES_LIT("linux"));
    text_attr(attrs, &n, "os.version", f->os_version);
    text_attr(attrs, &n, "os.description", f->os_description);
    /* What it says of itself: names that only we may give are not among them, but for the service's. Text
     * that is no UTF-8 is left out. */
    for (uint32_t i = 0; p->identity && i < p->identity->n; i++) {
        const struct attr *said = &p->identity->attr[i];
        bool is_text = said->value.kind == ATTR_STRING;
        if (!bytes_is(said->key, "service.name") && bytes_is_utf8(said->key) &&
            (!is_text || bytes_is_utf8(said->value.text)))
            attrs[n++] = *said;
    }
    build_resource(w->b, attrs, n, SCHEMA_URL);
    build_scope(w->b, SCOPE_NAME, BYTES_LIT(PROFGATE_VERSION), NULL, 0, SCHEMA_URL);
}

/* The window's begin, moved back to the oldest hit: what waited in the ring buffer was before it. */
static uint64_t begin_of(const struct window *window, uint64_t start)
{
    for (uint32_t i = 0; i < window->n_times; i++)
        start = min_of(start, window->time[i].ns);
    return start;
}

/* What a reader needs besides type and unit: the probability of waits (values are divided by it), which
 * function is probed. */
static uint32_t profile_attrs(struct writer *w, const struct kind *kind, uint32_t to[2])
{
    char text[TEXT_MAX];
    uint32_t n = 0;
    if (kind->how == KIND_WAIT) {
        snprintf(text, sizeof text, "%.6g", kind->share);
        if (kind->period) /* each hit's by its own: below the period its value is the period */
            snprintf(text, sizeof text, "min(1, duration/period)");
        to[n++] = attribute(w, "profsend.sampling.probability", bytes_str(text));
    }
    if (kind->how == KIND_PROBE) {
        snprintf(text, sizeof text, "%s:%s", kind->file, kind->symbol);
        to[n++] = attribute(w, "profsend.probe", bytes_str(text));
    }
    return n;
}

static void profile(struct writer *w, uint32_t source, uint64_t begin)
{
    const struct kind *kind = &w->facts->kinds->at[source];
    uint32_t attrs[2];
    struct build_profile p = {
        .type = build_string(w->b, bytes_str(kind->type)),
        .unit = build_string(w->b, bytes_str(kind->unit)),
        .period = (int64_t)kind->period,
        .time_unix_nano = begin + (uint64_t)w->facts->realtime_offset,
        .duration_nano = w->facts->end - begin,
        .attrs = attrs,
        .n_attrs = profile_attrs(w, kind, attrs),
    };
    if (*kind->period_type) {
        p.period_type = build_string(w->b, bytes_str(kind->period_type));
        p.period_unit = build_string(w->b, bytes_str(kind->period_unit));
    }
    uint8_t id[16];
    if (getrandom(id, sizeof id, GRND_NONBLOCK) == sizeof id)
        p.profile_id = id;
    build_profile(w->b, &p);
}

static int by_process_and_source(const void *a, const void *b)
{
    const struct window_sample *const *x = a, *const *y = b;
    uint64_t p = (*x)->process->serial, q = (*y)->process->serial;
    if (p != q)
        return p < q ? -1 : 1;
    return (*x)->source < (*y)->source ? -1 : (*x)->source > (*y)->source;
}

static int emit_one(struct writer *w, request_emit_fn emit, void *user)
{
    struct buffer out = {0};
    int r = build_finish(w->b, &out);
    if (r == 0)
        r = emit(user, &out, w->hits);
    buffer_release(&out);
    build_begin(w->b);
    memset(w->stack, 0, w->c->window.stacks.n * sizeof *w->stack);
    w->hits = 0;
    return r;
}

int request_build(struct build *b, const struct collector *c, const struct request_facts *facts,
                  request_emit_fn emit, void *user)
{
    uint32_t n = window_samples(&c->window);
    if (n == 0)
        return 0;
    autofree const struct window_sample **order = malloc(n * sizeof *order);
    autofree struct known_stack *stacks = calloc(c->window.stacks.n, sizeof *stacks);
    autofree uint64_t *times = malloc(c->window.n_times * sizeof *times);
    autofree int64_t *values = malloc(c->window.n_times * sizeof *values);
    if (!order || !stacks || !times || !values)
        return -ENOMEM;
    struct writer w = {.b = b, .c = c, .facts = facts, .stack = stacks, .times = times, .values = values};
    for (uint32_t i = 0; i < n; i++)
        order[i] = &c->window.sample[i];
    qsort(order, n, sizeof *order, by_process_and_source);
    build_begin(b);
    uint64_t begin = begin_of(&c->window, facts->start);
    const struct process *open = NULL;
    uint32_t source = 0;
    for (uint32_t i = 0; i < n; i++) {
        bool is_other = order[i]->process != open;
        if (is_other) {
            open = order[i]->process;
            resource(&w, open);
        }
        if (is_other || order[i]->source != source) {
            source = order[i]->source;
            profile(&w, source, begin);
        }
        sample(&w, order[i]);
        if (build_size(b) >= facts->max_bytes && i + 1 < n) {
            int r = emit_one(&w, emit, user);
            if (r < 0)
                return r;
            open = NULL;
        }
    }
    return emit_one(&w, emit, user);
}

size_t request_kernel_build_id(struct bytes notes, char *ret, size_t room)
{
    for (size_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.n;) {
        Elf64_Nhdr h;
        memcpy(&h, notes.p + at, sizeof h);
        uint64_t name = at + sizeof h, description = name + (((uint64_t)h.n_namesz + 3) & ~UINT64_C(3));
        uint64_t end = description + (((uint64_t)h.n_descsz + 3) & ~UINT64_C(3));
        if (end > notes.n)
            break;
        if (h.n_type == NT_GNU_BUILD_ID && h.n_namesz == 4 && memcmp(notes.p + name, "GNU", 4) == 0 &&
            2 * (size_t)h.n_descsz < room) {
            for (uint32_t i = 0; i < h.n_descsz; i++)
                snprintf(ret + 2 * i, 3, "%02x", notes.p[description + i]);
            return 2 * (size_t)h.n_descsz;
        }
        at = end;
    }
    return 0;
}
