#include "sender/collect/request.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "sender/collect/text.h"

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

static uint32_t location(struct writer *w, const struct process *process, const struct frame *frame)
{
    struct description d;
    collector_describe(w->c, process, frame, &d);
    uint32_t type = attribute(w, "profile.frame.type", bytes_str(d.type));
    struct build_line line = {.line = d.line};
    struct build_location l = {.address = d.address, .attrs = &type, .n_attrs = 1};
    if (d.binary)
        l.mapping = file_mapping(w, &d);
    else if (d.module.p)
        l.mapping = kernel_mapping(w, &d);
    if (d.name.n) {
        struct build_function f = {.name = string(w, d.name), .filename = string(w, d.file)};
        line.function = build_function(w->b, &f);
        l.lines = &line;
        l.n_lines = 1;
    }
    return build_location(w->b, &l);
}

static uint32_t stack(struct writer *w, const struct window_sample *s)
{
    struct known_stack *known = &w->stack[s->stack];
    if (known->process == s->process)
        return known->index;
    uint32_t n, locations[FRAMES_MAX + 1];
    const struct frame *frame = window_frames(&w->c->window, s->stack, &n);
    n = min_of(n, (uint32_t)FRAMES_MAX);
    for (uint32_t i = 0; i < n; i++)
        locations[i] = location(w, s->process, &frame[i]);
    *known = (struct known_stack){.process = s->process, .index = build_stack(w->b, locations, n)};
    return known->index;
}

static void sample(struct writer *w, const struct window_sample *s)
{
    const struct window *window = &w->c->window;
    uint32_t attrs[3] = {
        attribute(w, "thread.name", bytes_str(s->comm)),
        build_attribute_int(w->b, "thread.id", s->tid),
        build_attribute_int(w->b, "cpu.logical_number", s->cpu),
    };
    uint32_t n = 0;
    for (uint32_t at = s->first_time; at != WINDOW_NO_TIME; at = window->time[at].next)
        w->times[n++] = window->time[at].ns + (uint64_t)w->facts->realtime_offset;
    build_sample(
        w->b,
        &(struct build_sample){
            .stack = stack(w, s), .attrs = attrs, .n_attrs = 3, .timestamps = w->times, .n_timestamps = n});
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

static void resource(struct writer *w, const struct process *p)
{
    struct attr attrs[16];
    uint32_t n = 0;
    char scratch[4][TEXT_MAX];
    attrs[n++] = (struct attr){BYTES_LIT("process.pid"), {.kind = ATTR_INT, .integer = p->pid}};
    if (!p->is_kernel) {
        text_attr(attrs, &n, "process.executable.name", text_clean(p->name, scratch[0]));
        text_attr(attrs, &n, "process.executable.path", text_clean(p->path, scratch[1]));
    }
    text_attr(attrs, &n, "container.id", p->container_id);
    text_attr(attrs, &n, "service.name", text_clean(service_name(p), scratch[2]));
    text_attr(attrs, &n, "host.name", text_clean(w->facts->host_name, scratch[3]));
    text_attr(attrs, &n, "host.arch", w->facts->host_arch);
    text_attr(attrs, &n, "os.type", BYTES_LIT("linux"));
    text_attr(attrs, &n, "os.version", w->facts->os_version);
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

static void profile(struct writer *w, uint64_t begin)
{
    struct build_profile p = {
        .type = build_string(w->b, BYTES_LIT("samples")),
        .unit = build_string(w->b, BYTES_LIT("count")),
        .period_type = build_string(w->b, BYTES_LIT("cpu")),
        .period_unit = build_string(w->b, BYTES_LIT("nanoseconds")),
        .period = NSEC_PER_SEC / w->facts->frequency,
        .time_unix_nano = begin + (uint64_t)w->facts->realtime_offset,
        .duration_nano = w->facts->end - begin,
    };
    uint8_t id[16];
    if (getrandom(id, sizeof id, GRND_NONBLOCK) == sizeof id)
        p.profile_id = id;
    build_profile(w->b, &p);
}

static int by_process(const void *a, const void *b)
{
    const struct window_sample *const *x = a, *const *y = b;
    uint64_t p = (*x)->process->serial, q = (*y)->process->serial;
    return p < q ? -1 : p > q;
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
    if (!order || !stacks || !times)
        return -ENOMEM;
    struct writer w = {.b = b, .c = c, .facts = facts, .stack = stacks, .times = times};
    for (uint32_t i = 0; i < n; i++)
        order[i] = &c->window.sample[i];
    qsort(order, n, sizeof *order, by_process);
    build_begin(b);
    uint64_t begin = begin_of(&c->window, facts->start);
    const struct process *open = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (order[i]->process != open) {
            open = order[i]->process;
            resource(&w, open);
            profile(&w, begin);
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
