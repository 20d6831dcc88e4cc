/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/collect/report.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"

/* Hits of one process, or of one function in it. */
struct row {
    uint32_t process; /* index in the window */
    uint64_t name;    /* a number for the function */
    uint64_t hits;
};

static int by_hits(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return order_of(y->hits, x->hits);
}

/* Adds to the row of (process, name), or a new one. */
static void count(struct row *rows, uint32_t *n, uint32_t process, uint64_t name, uint64_t hits)
{
    for (uint32_t i = 0; i < *n; i++) {
        if (rows[i].process == process && rows[i].name == name) {
            rows[i].hits += hits;
            return;
        }
    }
    rows[(*n)++] = (struct row){process, name, hits};
}

/* What is written: samples of one kind. */
struct part {
    FILE *to;
    const struct naming *naming;
    const struct window *window;
    const struct kind *kind;
    uint32_t source;
    double seconds;
};

static struct bytes where_of(const struct description *d)
{
    if (d->binary)
        return bytes_str(d->binary->name);
    if (d->module.p)
        return d->module;
    return d->type == runtime_of(RUNTIME_NATIVE)->frame_type ? BYTES_LIT("?") : bytes_str(d->type);
}

/* "function [file]", with an address where there is no name. */
static void frame_text(const struct part *part, uint32_t process, const struct frame *frame, char *to,
                       size_t room)
{
    struct description d;
    naming_describe(part->naming, part->window, process, frame, &d);
    if (d.name.n)
        snprintf(to, room, "%.*s [%.*s]", BYTES_FMT(d.name), BYTES_FMT(where_of(&d)));
    else
        snprintf(to, room, "0x%llx [%.*s]", (unsigned long long)d.address, BYTES_FMT(where_of(&d)));
    bytes_make_plain(to);
}

/* One call: the function, its file, the source line; an inlined one is a line of its caller's. */
static void write_call(const struct part *part, struct bytes name, struct bytes where, struct bytes source,
                       uint32_t line, bool is_inlined)
{
    char text[1024], at[256] = "";
    if (source.n)
        snprintf(at, sizeof at, " %.*s:%u", BYTES_FMT(source), line);
    snprintf(text, sizeof text, "%.*s [%.*s]%s%s", BYTES_FMT(name), BYTES_FMT(where), at,
             is_inlined ? " (inlined)" : "");
    bytes_make_plain(text);
    fprintf(part->to, "      %s\n", text);
}

/* A frame as the calls it stands for, the innermost first. */
static void write_frame(const struct part *part, uint32_t process, const struct frame *frame)
{
    struct description d;
    char text[512];
    naming_describe(part->naming, part->window, process, frame, &d);
    for (uint32_t i = 0; i < d.inlined.n_lines; i++) {
        struct binary_line line = binaries_line(part->naming->binaries, &d.inlined, i);
        write_call(part, line.name, where_of(&d), line.file, line.line, i + 1 < d.inlined.n_lines);
    }
    for (const struct call *call = d.calls; call; call = call_caller(call)) {
        struct runtime_name name = call_name(call);
        write_call(part, name.name, where_of(&d), name.file, name.line, call_caller(call));
    }
    if (d.calls)
        return;
    if (d.inlined.n_lines == 0 && d.name.n) {
        write_call(part, d.name, where_of(&d), d.file, d.line, false);
    } else if (d.inlined.n_lines == 0) {
        frame_text(part, process, frame, text, sizeof text);
        fprintf(part->to, "      %s\n", text);
    }
}

/* What a sample counts for: its hits, or what they weigh. */
static uint64_t weight(const struct part *part, const struct window_sample *s)
{
    const struct window *w = part->window;
    uint64_t sum = 0;
    double share = w->process.p[s->process].share;
    if (part->kind->how == KIND_CLOCK || part->kind->how == KIND_PROBE)
        return (uint64_t)(s->n_times / share + 0.5);
    for (uint32_t at = s->first_time; at != WINDOW_NO_TIME; at = w->time.p[at].next)
        sum += w->time.p[at].value;
    return (uint64_t)((double)sum / (part->kind->share * share));
}

static void write_stack(const struct part *part, const struct window_sample *s)
{
    uint32_t n;
    char thread[SAMPLE_COMM_LEN + 1];
    const struct frame *frame = window_frames(part->window, s->stack, &n);
    snprintf(thread, sizeof thread, "%.*s", SAMPLE_COMM_LEN, s->comm);
    bytes_make_plain(thread);
    fprintf(part->to, "    heaviest stack (%u hits, thread %s):\n", s->n_times, thread);
    for (uint32_t i = 0; i < n; i++)
        write_frame(part, s->process, &frame[i]);
}

/* A total in the words of its kind. */
static void write_total(const struct part *part, uint64_t total)
{
    const struct kind *kind = part->kind;
    if (kind->how == KIND_CLOCK)
        fprintf(part->to, "  %6.1f %%",
                100 * (double)total * (double)kind->period / (part->seconds * NSEC_PER_SEC));
    else if (kind->how == KIND_WAIT || kind->how == KIND_BLOCK)
        fprintf(part->to, "  %8.3f s", (double)total / NSEC_PER_SEC);
    else
        fprintf(part->to, "  %10llu %s", (unsigned long long)total, kind->unit);
}

static int write_process(const struct part *part, const struct row *process)
{
    const struct window *w = part->window;
    struct intern names = INTERN_INIT(NULL);
    autofree struct row *rows = calloc(window_samples(w), sizeof *rows);
    if (!rows)
        return -ENOMEM;
    uint32_t n_rows = 0;
    const struct window_sample *heaviest = NULL;
    for (uint32_t i = 0; i < window_samples(w); i++) {
        const struct window_sample *s = &w->sample.p[i];
        uint32_t n;
        char text[512];
        if (s->process != process->process || s->source != part->source)
            continue;
        frame_text(part, s->process, window_frames(w, s->stack, &n), text, sizeof text);
        count(rows, &n_rows, s->process, intern_add(&names, bytes_str(text)), weight(part, s));
        if (!heaviest || weight(part, s) > weight(part, heaviest))
            heaviest = s;
    }
    qsort(rows, n_rows, sizeof *rows, by_hits);
    const struct process *p = w->process.p[process->process].process;
    char name[256];
    snprintf(name, sizeof name, "%.*s", BYTES_FMT(p->name));
    bytes_make_plain(name);
    write_total(part, process->hits);
    fprintf(part->to, "  pid %-7u %s%s\n", p->pid, name,
            p->is_kernel ? " (kernel thread)"
            : p->is_gone ? " (ended before it was seen)"
                         : "");
    for (uint32_t i = 0; i < min_of(n_rows, REPORT_FUNCTIONS) && rows[i].name != INTERN_NONE; i++)
        fprintf(part->to, "    %6llu  %s\n", (unsigned long long)rows[i].hits,
                (const char *)intern_get(&names, (uint32_t)rows[i].name).p);
    write_stack(part, heaviest);
    intern_release(&names);
    return 0;
}

static int write_kind(const struct part *part)
{
    const struct window *w = part->window;
    autofree struct row *rows = calloc(window_samples(w) + 1, sizeof *rows);
    if (!rows)
        return -ENOMEM;
    uint32_t n = 0, hits = 0;
    for (uint32_t i = 0; i < window_samples(w); i++) {
        if (w->sample.p[i].source != part->source)
            continue;
        count(rows, &n, w->sample.p[i].process, 0, weight(part, &w->sample.p[i]));
        hits += w->sample.p[i].n_times;
    }
    if (n == 0)
        return 0;
    qsort(rows, n, sizeof *rows, by_hits);
    fputs(part->kind->type, part->to);
    if (part->kind->how == KIND_PROBE)
        fprintf(part->to, " of %s:%s", part->kind->file, part->kind->symbol);
    fprintf(part->to, ": %u samples of %u processes in %.1f s%s:\n", hits, n, part->seconds,
            part->kind->how == KIND_CLOCK ? "; percent of one CPU" : "");
    for (uint32_t i = 0; i < min_of(n, REPORT_PROCESSES); i++) {
        int r = write_process(part, &rows[i]);
        if (r < 0)
            return r;
    }
    if (n > REPORT_PROCESSES)
        fprintf(part->to, "  … and %u more processes\n", n - REPORT_PROCESSES);
    return 0;
}

int report_write(FILE *to, const struct naming *n, const struct window *w, double seconds,
                 const struct kinds *kinds)
{
    for (uint32_t i = 0; i < SAMPLE_SOURCES; i++) {
        struct part part = {
            .to = to, .naming = n, .window = w, .kind = &kinds->at[i], .source = i, .seconds = seconds};
        int r = part.kind->how == KIND_OFF ? 0 : write_kind(&part);
        if (r < 0)
            return r;
    }
    return fflush(to) == 0 ? 0 : -EIO;
}
