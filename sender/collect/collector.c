#include "sender/collect/collector.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "sender/context/place.h"
#include "sender/context/record.h"
#include "sender/symbolize/perfmap.h"

/* The kernel's symbols are read again for an address that is in none of them (a module loaded since), but
 * printing them costs the kernel tens of milliseconds: at most this often. */
#define KERNEL_AGAIN_NS (60 * (uint64_t)NSEC_PER_SEC)

/* Addresses of generated code looked up in one window; what is above stays unnamed. */
#define GENERATED_MAX 65536u

/* The vDSO is two pages or so; its section headers end it. */
#define VDSO_MAX 65536u
static const struct binary_key vdso_key = {.inode = UINT64_MAX};

struct generated {
    const struct process *process;
    uint64_t address;
    struct bytes name;
};

/* Our own vDSO as an ELF image. The section headers come last in it. */
static struct bytes own_vdso(void)
{
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)getauxval(AT_SYSINFO_EHDR);
    if (!h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64)
        return bytes_of(NULL, 0);
    uint64_t size = h->e_shoff + (uint64_t)h->e_shnum * h->e_shentsize;
    return size > VDSO_MAX ? bytes_of(NULL, 0) : bytes_of(h, (size_t)size);
}

int collector_init(struct collector *c, const char *proc_root, const char *kallsyms_path)
{
    *c = (struct collector){.kallsyms_path = kallsyms_path, .vdso = own_vdso()};
    c->procs = procs_new(proc_root);
    c->binaries = binaries_new();
    if (!c->procs || !c->binaries) {
        collector_release(c);
        return -ENOMEM;
    }
    return 0;
}

void collector_release(struct collector *c)
{
    window_release(&c->window);
    pending_release(&c->pending);
    procs_free(c->procs);
    binaries_free(c->binaries);
    kallsyms_free(c->kernel);
    free(c->generated.at);
    arena_release(&c->generated.text);
    *c = (struct collector){0};
}

/* The binary of a region, opened at first sight. 0: there is no file, or it cannot be had. */
static uint32_t binary_of(struct collector *c, const struct process *process, struct region *region)
{
    struct binary_key key = {.inode = region->inode, .major = region->major, .minor = region->minor};
    bool is_vdso = bytes_is(region->path, "[vdso]");
    if (is_vdso)
        key = vdso_key;
    else if (region->inode == 0)
        return 0;
    const struct binary *known = binaries_get(c->binaries, region->tag);
    if (known && known->key.inode == key.inode && known->key.major == key.major &&
        known->key.minor == key.minor)
        return region->tag;
    uint32_t number = binaries_find(c->binaries, &key);
    if (!number && is_vdso && c->vdso.p) {
        number = binaries_add_memory(c->binaries, &key, "linux-vdso.so.1", c->vdso);
    } else if (!number) {
        int fd = procs_open_region(c->procs, process, region);
        if (fd < 0)
            return 0;
        struct bytes name = bytes_after_last(region->path, '/');
        number = binaries_add(c->binaries, &key, (const char *)name.p, fd);
        binaries_met(c->binaries, number, process->pid, (const char *)region->path.p);
    }
    region->tag = number;
    return number;
}

/* A user frame. False: the address is in no code of the process, as when a register that is no frame pointer
 * was followed; the stack ends before it. `is_sure`: the kernel side found a mapping of code there, which
 * ours may be older than. */
static bool user_frame(struct collector *c, struct process *process, uint64_t address, bool is_sure,
                       uint64_t now, struct frame *ret)
{
    *ret = (struct frame){.kind = FRAME_OTHER, .address = address};
    struct region *region = procs_region(c->procs, process, address, is_sure, now);
    if (!region)
        return is_sure || process->maps.n == 0; /* nothing known of it at all: keep what we were told */
    uint32_t number = binary_of(c, process, region);
    const struct binary *binary = binaries_get(c->binaries, number);
    uint64_t at;
    if (!binary || !elf_address(&binary->elf, address - region->start + region->offset, &at))
        return true;
    if (binaries_want(c->binaries, number, at)) {
        int fd = procs_open_region(c->procs, process, region);
        if (fd >= 0)
            binaries_reopen(c->binaries, number, at, fd);
        binaries_met(c->binaries, number, process->pid, (const char *)region->path.p);
    }
    *ret = (struct frame){.kind = FRAME_FILE, .binary = number, .address = at};
    return true;
}

/* Where its threads publish their contexts is looked for when it says that they do, and again, less and less
 * often, until it is found: their library may be loaded later. */
static void find_place(struct collector *c, struct process *process, uint64_t now)
{
    struct context_place place;
    if (process->placed == process->published && (!process->place_at || now < process->place_at))
        return;
    if (process->placed != process->published)
        process->place_in = PROCS_IDENTIFY_NS / 2;
    process->placed = process->published;
    process->place_at = 0;
    if (!place_is_published(process)) {
        c->place(c->place_user, process->pid, NULL);
    } else if (place_find(c->procs, process, &place) == 0) {
        c->place(c->place_user, process->pid, &place);
    } else {
        process->place_in = min_of(2 * process->place_in, (uint64_t)PROCS_IDENTIFY_MAX_NS);
        process->place_at = now + process->place_in;
    }
}

/* The context of a sample, as far as it says something. */
static struct bytes context_of(struct collector *c, struct process *process, const struct sample_head *head,
                               const uint64_t *address, uint64_t now)
{
    struct record record;
    const uint8_t *p = (const uint8_t *)(address + head->n_kernel + head->n_user);
    if (!head->n_context || !record_read(p, head->n_context, &record))
        return bytes_of(NULL, 0);
    /* OTEP 4947: a key that is not known makes the reader look at the map of keys again. */
    if (record.attributes.n && record_has_new_key(&record, process->identity ? process->identity->n_keys : 0))
        procs_identify(c->procs, process, now);
    return bytes_of(p, head->n_context);
}

void collector_stack(struct collector *c, const struct sample_head *head, const uint64_t *address,
                     uint64_t now)
{
    struct frame frame[FRAMES_MAX + 1];
    uint32_t n = 0;
    struct process *process =
        procs_get(c->procs, head->pid, head->start, head->comm, head->is_kernel_thread, now);
    if (!process) {
        c->refused++;
        return;
    }
    if (c->place && process->published)
        find_place(c, process, now);
    if (head->ticket) { /* known now; the rest when it is known what it weighs */
        pending_add(&c->pending, head, address);
        return;
    }
    /* A return address is that of the next instruction, which may be another function's: one less is in the
     * call. */
    for (uint32_t i = 0; i < head->n_kernel; i++)
        frame[n++] = (struct frame){.kind = FRAME_KERNEL, .address = address[i] - (i > 0)};
    bool is_exact = head->flags & SAMPLE_EXACT;
    for (uint32_t i = 0; i < head->n_user; i++) {
        uint64_t at = address[head->n_kernel + i] - (i > 0 && !is_exact);
        if (!user_frame(c, process, at, i == 0 || is_exact, now, &frame[n]))
            break;
        n++;
    }
    if (n == 0) /* in the middle of execve or exit: neither has a stack; the time was spent all the same */
        frame[n++] = (struct frame){.kind = FRAME_OTHER};
    window_add(&c->window, process, head, frame, n, context_of(c, process, head, address, now));
}

void collector_notice(struct collector *c, const struct sample_head *head, uint64_t now)
{
    if (head->kind == SAMPLE_FORK) {
        procs_fork(c->procs, head->pid, head->start, (uint32_t)head->value, head->ticket, now);
    } else if (head->kind == SAMPLE_EXIT) {
        procs_exit(c->procs, head->pid, head->start, now);
        if (c->place)
            c->place(c->place_user, head->pid, NULL);
    } else if (head->kind == SAMPLE_VALUE) {
        struct pending_stack *stack = pending_take(&c->pending, head->ticket);
        if (stack && head->value) {
            stack->head.ticket = 0;
            stack->head.value = head->value;
            stack->head.time = head->time;
            collector_stack(c, &stack->head, stack->address, now);
        }
        free(stack);
    }
}

void collector_exec(struct collector *c, const struct sample_head *head, const char *path, uint64_t now)
{
    procs_exec(c->procs, head->pid, head->start, path, now);
    if (c->place)
        c->place(c->place_user, head->pid, NULL);
}

static void read_kernel(struct collector *c, uint64_t now)
{
    struct kallsyms *fresh = NULL;
    c->kernel_tried = now;
    autoclose int fd = open(c->kallsyms_path, O_RDONLY | O_CLOEXEC);
    c->kernel_state = fd < 0 ? -errno : kallsyms_read(&fresh, fd);
    if (fresh) {
        kallsyms_free(c->kernel);
        c->kernel = fresh;
    }
}

/* Reads the kernel's symbols when a kernel address is not in them. */
static void settle_kernel(struct collector *c, const struct frame *frame, uint64_t now)
{
    struct kallsyms_name name;
    if (c->kernel && kallsyms_find(c->kernel, frame->address, &name))
        return;
    if (c->kernel_tried == 0 || now - c->kernel_tried >= KERNEL_AGAIN_NS)
        read_kernel(c, now);
}

static void note_generated(struct collector *c, const struct process *process, uint64_t address)
{
    if (c->generated.n == c->generated.cap) {
        uint32_t cap = c->generated.cap ? 2 * c->generated.cap : 64;
        struct generated *more = cap <= GENERATED_MAX ? realloc(c->generated.at, cap * sizeof *more) : NULL;
        if (!more)
            return;
        c->generated.at = more;
        c->generated.cap = cap;
    }
    c->generated.at[c->generated.n++] = (struct generated){.process = process, .address = address};
}

static int by_process(const void *a, const void *b)
{
    const struct generated *x = a, *y = b;
    if (x->process->serial != y->process->serial)
        return x->process->serial < y->process->serial ? -1 : 1;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* Names the generated code of one process: n entries at `at`, sorted, from its perf map. */
static void name_generated(struct collector *c, struct generated *at, uint32_t n)
{
    struct source source;
    autoclose int fd = procs_open_perf_map(c->procs, at->process);
    autofree struct perfmap_answer *answer = fd >= 0 ? malloc(n * sizeof *answer) : NULL;
    if (!answer || source_file(&source, fd) < 0)
        return;
    for (uint32_t i = 0; i < n; i++)
        answer[i] = (struct perfmap_answer){.address = at[i].address};
    if (perfmap_search(&source, answer, n, &c->generated.text) < 0)
        return;
    for (uint32_t i = 0; i < n; i++)
        at[i].name = answer[i].name;
}

static void settle_generated(struct collector *c)
{
    if (c->generated.n == 0)
        return;
    qsort(c->generated.at, c->generated.n, sizeof *c->generated.at, by_process);
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->generated.n; i++)
        if (n == 0 || by_process(&c->generated.at[i], &c->generated.at[n - 1]) != 0)
            c->generated.at[n++] = c->generated.at[i];
    c->generated.n = n;
    for (uint32_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && c->generated.at[to].process == c->generated.at[from].process;)
            to++;
        name_generated(c, &c->generated.at[from], to - from);
    }
}

void collector_settle(struct collector *c, uint64_t now)
{
    for (uint32_t i = 0; i < window_samples(&c->window); i++) {
        const struct window_sample *s = &c->window.sample[i];
        uint32_t n;
        const struct frame *frame = window_frames(&c->window, s->stack, &n);
        for (uint32_t j = 0; j < n; j++) {
            if (frame[j].kind == FRAME_KERNEL)
                settle_kernel(c, &frame[j], now);
            else if (frame[j].kind == FRAME_OTHER && frame[j].address)
                note_generated(c, s->process, frame[j].address);
        }
    }
    settle_generated(c);
    binaries_resolve(c->binaries);
}

static void describe_kernel(const struct collector *c, const struct frame *frame, struct description *d)
{
    struct kallsyms_name name;
    d->type = "kernel";
    d->module = BYTES_LIT("vmlinux");
    if (!c->kernel || !kallsyms_find(c->kernel, frame->address, &name))
        return;
    d->name = name.name;
    d->module = name.module;
    d->address = frame->address - name.base;
}

static void describe_file(const struct collector *c, const struct frame *frame, struct description *d)
{
    const struct binary *binary = binaries_get(c->binaries, frame->binary);
    struct binary_name name = binaries_name(c->binaries, frame->binary, frame->address);
    struct binary_line line = binaries_line(c->binaries, &name, 0);
    d->type = name.is_go ? "go" : "native";
    d->name = line.name;
    d->file = line.file;
    d->line = line.line;
    d->inlined = name;
    d->binary = binary;
    for (uint32_t i = 0; i < binary->elf.n_segments; i++) {
        const struct elf_segment *g = &binary->elf.segment[i];
        if (frame->address >= g->address && frame->address - g->address < g->file_size)
            d->segment = g;
    }
}

static void describe_other(const struct collector *c, const struct process *process,
                           const struct frame *frame, struct description *d)
{
    struct generated key = {.process = process, .address = frame->address};
    const struct generated *found =
        c->generated.n ? bsearch(&key, c->generated.at, c->generated.n, sizeof key, by_process) : NULL;
    d->type = "native";
    if (found && found->name.p) {
        d->name = found->name;
        d->type = perfmap_frame_type(found->name);
    }
}

void collector_describe(const struct collector *c, const struct process *process, const struct frame *frame,
                        struct description *ret)
{
    struct description d = {.address = frame->address, .name = BYTES_LIT(""), .file = BYTES_LIT("")};
    switch (frame->kind) {
    case FRAME_KERNEL: describe_kernel(c, frame, &d); break;
    case FRAME_FILE: describe_file(c, frame, &d); break;
    default: describe_other(c, process, frame, &d); break;
    }
    *ret = d;
}

void collector_next(struct collector *c, uint64_t now)
{
    window_clear(&c->window);
    c->generated.n = 0;
    arena_reset(&c->generated.text, 64 * 1024);
    procs_sweep(c->procs, now);
    binaries_sweep(c->binaries);
}
