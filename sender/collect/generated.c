/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/collect/generated.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "sender/foreign/open.h"
#include "sender/symbolize/jit/perfmap.h"

void generated_note(struct generated *g, const struct process *process, uint64_t address)
{
    if (g->code.n < GENERATED_MAX) /* without memory it has no name */
        (void)vec_append(&g->code, (struct generated_code){
                                       .process = process, .serial = process->serial, .address = address});
}

static int by_process(const void *a, const void *b)
{
    const struct generated_code *x = a, *y = b;
    /* What is known first: it stays. */
    return order_of(x->serial, y->serial) ?: order_of(x->address, y->address) ?: y->is_known - x->is_known;
}

/* Sorts, each once. */
static void merge(struct generated *g)
{
    uint32_t n = 0;
    if (g->code.n)
        qsort(g->code.p, g->code.n, sizeof *g->code.p, by_process);
    for (uint32_t i = 0; i < g->code.n; i++) {
        const struct generated_code *one = &g->code.p[i];
        struct generated_code *last = n ? &g->code.p[n - 1] : NULL;
        if (!last || last->serial != one->serial || last->address != one->address) {
            g->code.p[n++] = *one;
            continue;
        }
        last->process = last->process ? last->process : one->process;
        last->name = last->name.p ? last->name : one->name;
        last->idle = min_of(last->idle, one->idle);
    }
    g->code.n = n;
}

static struct generated_map *map_of(struct generated *g, uint64_t serial)
{
    for (uint32_t i = 0; i < g->map.n; i++)
        if (g->map.p[i].serial == serial)
            return &g->map.p[i];
    bool ok = vec_append(&g->map, (struct generated_map){.serial = serial, .size = -1}) == 0;
    return ok ? &g->map.p[g->map.n - 1] : NULL;
}

/* Names what is not known of one process: `n` at `code`. */
static void search(struct generated *g, struct generated_code *code, uint32_t n, const struct source *s,
                   struct generated_map *map)
{
    uint32_t n_new = 0;
    autofree struct perfmap_answer *answer = malloc(n * sizeof *answer);
    for (uint32_t i = 0; answer && i < n; i++)
        if (!code[i].is_known)
            answer[n_new++] = (struct perfmap_answer){.address = code[i].address};
    if (n_new == 0)
        return;
    if (perfmap_search(s, answer, n_new, &g->text) < 0) {
        map->size = -1; /* another time */
        return;
    }
    for (uint32_t i = 0, k = 0; i < n; i++) {
        if (code[i].is_known)
            continue;
        code[i].name = answer[k++].name;
        code[i].is_known = true;
        g->text_n += code[i].name.n;
    }
}

static void settle_process(struct generated *g, const struct procs *procs, const struct process *process,
                           struct generated_code *code, uint32_t n, struct allowance *user)
{
    struct source source;
    struct stat st;
    struct generated_map *map = map_of(g, process->serial);
    if (!map || !allowance_take(user, 0))
        return;
    autoclose int fd = procs_open_perf_map(procs, process);
    if (fd < 0 || foreign_stat(fd, &st) < 0 || source_file(&source, fd) < 0)
        return;
    bool is_same = foreign_is_unchanged(&st, map->size, map->changed);
    for (uint32_t i = 0; i < n && !is_same; i++)
        code[i].is_known = false;
    *map = (struct generated_map){process->serial, st.st_size, st.st_ctim};
    source.allowance = user;
    search(g, code, n, &source, map);
}

void generated_settle(struct generated *g, const struct procs *procs, struct ledger *ledger, uint64_t now)
{
    merge(g);
    for (uint32_t from = 0, to; from < g->code.n; from = to) {
        const struct process *process = NULL;
        for (to = from; to < g->code.n && g->code.p[to].serial == g->code.p[from].serial; to++)
            process = g->code.p[to].process ? g->code.p[to].process : process;
        if (process)
            settle_process(g, procs, process, &g->code.p[from], to - from,
                           ledger_share(ledger, process->user, process->serial, now));
    }
}

struct bytes generated_name(const struct generated *g, const struct process *process, uint64_t address)
{
    uint32_t i = first_where(g->code.n, k,
                             g->code.p[k].serial > process->serial ||
                                 (g->code.p[k].serial == process->serial && g->code.p[k].address >= address));
    bool is_it = i < g->code.n && g->code.p[i].serial == process->serial && g->code.p[i].address == address;
    return is_it ? g->code.p[i].name : bytes_of(NULL, 0);
}

void generated_next(struct generated *g)
{
    uint32_t n = 0;
    if (g->text_n > GENERATED_TEXT_MAX || g->code.n > GENERATED_MAX / 2) { /* room for who comes next */
        g->code.n = g->map.n = 0;
        g->text_n = 0;
        arena_reset(&g->text, 64 * 1024);
        return;
    }
    for (uint32_t i = 0; i < g->code.n; i++) {
        struct generated_code *one = &g->code.p[i];
        one->process = NULL;
        if (one->idle++ < GENERATED_IDLE)
            g->code.p[n++] = *one;
    }
    g->code.n = n;
    for (uint32_t i = n = 0; i < g->map.n; i++) {
        uint64_t serial = g->map.p[i].serial;
        uint32_t at = first_where(g->code.n, k, g->code.p[k].serial >= serial);
        if (at < g->code.n && g->code.p[at].serial == serial)
            g->map.p[n++] = g->map.p[i];
    }
    g->map.n = n;
}

void generated_release(struct generated *g)
{
    vec_release(&g->code);
    vec_release(&g->map);
    arena_release(&g->text);
    *g = (struct generated){0};
}
