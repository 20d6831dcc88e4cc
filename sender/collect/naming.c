/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/collect/naming.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "sender/collect/collector.h"
#include "sender/symbolize/jit/perfmap.h"

int naming_init(struct naming *n, const struct kernel_options *kernel, struct bytes vdso)
{
    *n = (struct naming){.vdso = vdso, .binaries = binaries_new(), .kernel = kernel_new(kernel)};
    ledger_init(&n->ledger, LEDGER_SAVED);
    return n->binaries && n->kernel ? 0 : -ENOMEM;
}

void naming_release(struct naming *n)
{
    binaries_free(n->binaries);
    kernel_free(n->kernel);
    generated_release(&n->generated);
    vec_release(&n->number);
    *n = (struct naming){0};
}

/* Hands the file's descriptor out. */
static int take_fd_of(struct window_file *f)
{
    int fd = f->fd;
    f->fd = -1;
    return fd;
}

/* What reading a file is charged to: the process in which it was met. */
static struct allowance *payer(struct naming *n, const struct window *w, const struct window_file *f,
                               uint64_t now)
{
    for (uint32_t i = 0; i < w->process.n; i++) {
        const struct process *process = w->process.p[i].process;
        if (process->pid == f->pid && process->user != UINT32_MAX)
            return ledger_share(&n->ledger, process->user, process->serial, now);
    }
    return ledger_of(&n->ledger, UINT32_MAX, now);
}

static uint32_t number_of(struct naming *n, const struct window *w, struct window_file *f, uint64_t now)
{
    struct allowance *user = payer(n, w, f, now);
    uint32_t number = binaries_find(n->binaries, &f->key);
    binaries_charge(n->binaries, number, user);
    if (number)
        return number;
    if (f->key.inode == collector_vdso.inode)
        return n->vdso.n ? binaries_add_memory(n->binaries, &f->key, "linux-vdso.so.1", n->vdso) : 0;
    if (f->fd < 0)
        return 0;
    struct bytes name = bytes_after_last(bytes_str(f->path), '/');
    number = binaries_add(n->binaries, &f->key, (const char *)name.p, take_fd_of(f), user);
    if (number)
        binaries_met(n->binaries, number, f->pid, f->path);
    return number;
}

/* Finds the binaries of the window's files. False: memory is out; they have no names then. */
static bool number_files(struct naming *n, struct window *w, uint64_t now)
{
    if (vec_extend(&n->number, w->file.n) < 0)
        return false;
    for (uint32_t i = 0; i < w->file.n; i++)
        n->number.p[i] = number_of(n, w, &w->file.p[i], now);
    return true;
}

static void want(struct naming *n, struct window *w, const struct frame *frame, uint64_t hits)
{
    struct window_file *f = &w->file.p[frame->file];
    uint32_t number = n->number.p[frame->file];
    if (!number || !binaries_want(n->binaries, number, frame->address, hits))
        return;
    if (f->fd >= 0 && binaries_reopen(n->binaries, number, take_fd_of(f)))
        binaries_want(n->binaries, number, frame->address, hits);
    binaries_met(n->binaries, number, f->pid, f->path);
}

/* The frames of one stack that are the same in every process. Whether there are others. */
static bool settle_stack(struct naming *n, struct window *w, uint32_t stack, uint64_t hits)
{
    uint32_t n_frames;
    bool has_others = false;
    const struct frame *frame = window_frames(w, stack, &n_frames);
    for (uint32_t i = 0; i < n_frames; i++) {
        if (frame[i].kind == FRAME_KERNEL)
            kernel_want(n->kernel, frame[i].address);
        else if (frame[i].kind == FRAME_FILE)
            want(n, w, &frame[i], hits);
        else
            has_others |= frame[i].kind == FRAME_OTHER;
    }
    return has_others;
}

static void note_others(struct naming *n, const struct window *w, const struct window_sample *s)
{
    uint32_t n_frames;
    const struct frame *frame = window_frames(w, s->stack, &n_frames);
    for (uint32_t i = 0; i < n_frames; i++)
        if (frame[i].kind == FRAME_OTHER && frame[i].address)
            generated_note(&n->generated, w->process.p[s->process].process, frame[i].address);
}

void naming_settle(struct naming *n, struct window *w, const struct procs *procs, uint64_t now)
{
    bool has_others = false;
    autofree uint64_t *hits = calloc((size_t)w->stacks.n + 1, sizeof *hits);
    for (uint32_t i = 0; hits && i < window_samples(w); i++)
        hits[w->sample.p[i].stack] += w->sample.p[i].n_times;
    if (hits && number_files(n, w, now)) {
        for (uint32_t i = 0; i < w->stacks.n; i++)
            has_others |= settle_stack(n, w, i, hits[i]);
    } else {
        vec_release(&n->number);
    }
    for (uint32_t i = 0; has_others && i < window_samples(w); i++)
        note_others(n, w, &w->sample.p[i]);
    n->kernel_state = kernel_resolve(n->kernel);
    generated_settle(&n->generated, procs, &n->ledger, now);
    if (n->words)
        words_settle(n->words);
    binaries_resolve(n->binaries);
    window_close_files(w);
}

static void describe_kernel(const struct naming *n, const struct window *w, uint32_t process,
                            const struct frame *frame, struct description *d)
{
    struct kernel_name name;
    d->type = "kernel";
    d->module = BYTES_LIT("vmlinux");
    d->address = 0; /* where the kernel lies is its secret: what is not named relative to it is not told */
    if (!kernel_find(n->kernel, frame->address, &name))
        return;
    d->name = name.name;
    d->module = name.module;
    d->address = name.address;
}

static void describe_file(const struct naming *n, const struct window *w, uint32_t process,
                          const struct frame *frame, struct description *d)
{
    uint32_t number = n->number.n ? n->number.p[frame->file] : 0;
    const struct binary *binary = binaries_get(n->binaries, number);
    if (!binary) {
        struct bytes name = bytes_after_last(bytes_str(w->file.p[frame->file].path), '/');
        d->module = name.n ? name : bytes_of(NULL, 0);
        return;
    }
    struct binary_name name = binaries_name(n->binaries, number, frame->address);
    struct binary_line line = binaries_line(n->binaries, &name, 0);
    if (name.is_go)
        d->type = "go";
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

static void describe_other(const struct naming *n, const struct window *w, uint32_t process,
                           const struct frame *frame, struct description *d)
{
    struct bytes name = generated_name(&n->generated, w->process.p[process].process, frame->address);
    if (name.p) {
        d->name = name;
        d->type = perfmap_frame_type(name);
    }
}

static void describe_word(const struct naming *n, const struct window *w, uint32_t process,
                          const struct frame *frame, struct description *d)
{
    const struct window_word *word = &w->word.p[frame->file];
    const struct call *call = word->word ? word_call(word->word) : NULL;
    d->type = word->runtime->frame_type;
    if (!call)
        return;
    struct runtime_name name = call_name(call);
    d->address = 0; /* an object's, which says nothing to anybody else */
    d->name = name.name;
    d->file = name.file;
    d->line = name.line;
    d->calls = call;
}

void naming_describe(const struct naming *n, const struct window *w, uint32_t process,
                     const struct frame *frame, struct description *ret)
{
    static void (*const describe[FRAME_KINDS])(const struct naming *, const struct window *, uint32_t,
                                               const struct frame *, struct description *) = {
        [FRAME_KERNEL] = describe_kernel,
        [FRAME_FILE] = describe_file,
        [FRAME_OTHER] = describe_other,
        [FRAME_WORD] = describe_word,
    };
    struct description d = {.type = runtime_of(RUNTIME_NATIVE)->frame_type,
                            .address = frame->address,
                            .name = BYTES_LIT(""),
                            .file = BYTES_LIT("")};
    describe[frame->kind](n, w, process, frame, &d);
    *ret = d;
}

void naming_next(struct naming *n)
{
    generated_next(&n->generated);
    kernel_next(n->kernel);
    binaries_sweep(n->binaries);
}

struct naming_counts naming_counts(const struct naming *n)
{
    return (struct naming_counts){.binaries = binaries_counts(n->binaries),
                                  .kernel_memory = kernel_memory(n->kernel),
                                  .kernel_state = n->kernel_state};
}
