/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "sender/collect/parts.h"
#include "sender/symbolize/cache/places.h"

static uint32_t make_file_mapping(struct writer *w, const struct description *d)
{
    const struct elf *elf = &d->binary->elf;
    uint32_t attrs[3], n = 0;
    char hex[2 * ELF_BUILD_ID_MAX + 1];
    for (uint32_t i = 0; i < elf->build_id_n; i++)
        snprintf(hex + 2 * i, 3, "%02x", elf->build_id[i]);
    if (elf->build_id_n)
        attrs[n++] = request_attribute(w, "process.executable.build_id.gnu", bytes_str(hex));
    if (*elf->go_id)
        attrs[n++] = request_attribute(w, "process.executable.build_id.go", bytes_str(elf->go_id));
    if (*d->binary->htlhash)
        attrs[n++] =
            request_attribute(w, "process.executable.build_id.htlhash", bytes_str(d->binary->htlhash));
    struct build_mapping m = {
        .filename = request_string(w, bytes_str(d->binary->name)), .attrs = attrs, .n_attrs = n};
    if (d->segment) {
        m.memory_start = d->segment->address;
        m.memory_limit = d->segment->address + d->segment->memory_size;
        m.file_offset = d->segment->file_offset;
    }
    return build_mapping(w->b, &m);
}

static uint32_t file_mapping(struct writer *w, const struct frame *frame, const struct description *d)
{
    struct known_mapping *known = &w->mapping[frame->file];
    if (!known->index || known->segment != d->segment)
        *known = (struct known_mapping){d->segment, make_file_mapping(w, d)};
    return known->index;
}

static uint32_t kernel_mapping(struct writer *w, const struct description *d)
{
    uint32_t attrs[1], n = 0;
    if (bytes_is(d->module, "vmlinux") && w->facts->kernel_build_id.n)
        attrs[n++] = request_attribute(w, "process.executable.build_id.gnu", w->facts->kernel_build_id);
    return build_mapping(w->b, &(struct build_mapping){
                                   .filename = request_string(w, d->module), .attrs = attrs, .n_attrs = n});
}

static struct build_line inlined_line(struct writer *w, const struct binary_name *name, uint32_t i)
{
    struct binary_line line = binaries_line(w->naming->binaries, name, i);
    struct build_function f = {.name = request_string(w, line.name),
                               .filename = request_string(w, line.file),
                               .start_line = line.start_line};
    return (struct build_line){.function = build_function(w->b, &f), .line = line.line};
}

static struct build_line call_line(struct writer *w, struct bytes name, struct bytes file, uint32_t line)
{
    struct build_function f = {.name = request_string(w, name), .filename = request_string(w, file)};
    return (struct build_line){.function = build_function(w->b, &f), .line = line};
}

static uint32_t location(struct writer *w, uint32_t process, const struct frame *frame)
{
    struct description d;
    naming_describe(w->naming, w->window, process, frame, &d);
    uint32_t type = request_attribute(w, "profile.frame.type", bytes_str(d.type));
    struct build_line line[PLACES_LINES_MAX];
    struct build_location l = {.address = d.address, .attrs = &type, .n_attrs = 1};
    if (d.binary)
        l.mapping = file_mapping(w, frame, &d);
    else if (d.module.p)
        l.mapping = kernel_mapping(w, &d);
    l.lines = line;
    if (d.inlined.n_lines) {
        for (; l.n_lines < d.inlined.n_lines; l.n_lines++)
            line[l.n_lines] = inlined_line(w, &d.inlined, l.n_lines);
    } else if (d.calls) {
        for (const struct call *call = d.calls; call && l.n_lines < PLACES_LINES_MAX;
             call = call_caller(call)) {
            struct runtime_name name = call_name(call);
            line[l.n_lines++] = call_line(w, name.name, name.file, name.line);
        }
    } else if (d.name.n) {
        line[l.n_lines++] = call_line(w, d.name, d.file, d.line);
    }
    return build_location(w->b, &l);
}

static uint32_t known_location(struct writer *w, uint32_t process, const struct frame *frame)
{
    uint32_t of = frame->kind == FRAME_OTHER ? process + 1 : UINT32_MAX;
    uint64_t hash = hash_mix(frame->address, (uint64_t)of << 32 | frame->file);
    struct known_frame *known = &w->frame[hash % KNOWN_FRAMES];
    if (known->process != of || known->frame.kind != frame->kind || known->frame.file != frame->file ||
        known->frame.address != frame->address)
        *known = (struct known_frame){*frame, of, location(w, process, frame)};
    return known->location;
}

/* A tracepoint that several programs listen to calls them by a function of its own, which is on top of the
 * kernel's stack then and no part of the story. */
static bool is_tracing(const struct writer *w, uint32_t process, const struct frame *frame)
{
    static const char prefix[] = "__traceiter_";
    struct description d;
    if (frame->kind != FRAME_KERNEL)
        return false;
    naming_describe(w->naming, w->window, process, frame, &d);
    return d.name.n > sizeof prefix && memcmp(d.name.p, prefix, sizeof prefix - 1) == 0;
}

uint32_t request_stack(struct writer *w, const struct window_sample *s)
{
    struct known_stack *known = &w->stack[s->stack];
    if (known->process == s->process + 1)
        return known->index;
    uint32_t n, locations[FRAMES_MAX + 1];
    const struct frame *frame = window_frames(w->window, s->stack, &n);
    n = min_of(n, (uint32_t)FRAMES_MAX);
    if (n > 1 && is_tracing(w, s->process, frame)) {
        frame++;
        n--;
    }
    for (uint32_t i = 0; i < n; i++)
        locations[i] = known_location(w, s->process, &frame[i]);
    *known = (struct known_stack){.process = s->process + 1, .index = build_stack(w->b, locations, n)};
    return known->index;
}

/* Frames a C library has below `main`. */
#define BELOW_MAIN 3u

/* Where `main` is, or where programs and the dynamic linker begin, if that is among the last; else n. */
static uint32_t find_main(const struct writer *w, const struct window_sample *s, const struct frame *frame,
                          uint32_t n)
{
    uint32_t found = n;
    for (uint32_t i = n; i > 0 && n - i < BELOW_MAIN; i--) {
        struct description d;
        naming_describe(w->naming, w->window, s->process, &frame[i - 1], &d);
        if (bytes_is(d.name, "main") || bytes_is(d.name, "_start"))
            found = i - 1;
    }
    return found;
}

/* A stack whose way on was lost only below `main`, in a C library without frame information (musl), is whole;
 * one that was left by a frame pointer above it, where none may have been, is a guess. */
enum window_incomplete request_incomplete(const struct writer *w, const struct window_sample *s)
{
    uint32_t n, by_pointer = 0;
    const struct frame *frame = window_frames(w->window, s->stack, &n);
    while (by_pointer < n && frame[by_pointer].way != FRAME_BY_POINTER)
        by_pointer++;
    if (s->incomplete == WINDOW_COMPLETE && by_pointer == n)
        return frame[n - 1].way == FRAME_NOWHERE ? WINDOW_NO_WAY_ON : WINDOW_COMPLETE;
    if (s->incomplete == WINDOW_GUESSED && by_pointer == n)
        return WINDOW_GUESSED; /* the walk says so, and not where */
    uint32_t main_at = find_main(w, s, frame, n);
    if (main_at < n && by_pointer >= main_at)
        return WINDOW_COMPLETE;
    return s->incomplete == WINDOW_COMPLETE ? WINDOW_GUESSED : s->incomplete;
}
