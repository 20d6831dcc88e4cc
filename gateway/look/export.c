/* SPDX-License-Identifier: Apache-2.0 */
/* A selection for other tools: folded stacks, and pprof. */
#include <errno.h>
#include <stdlib.h>

#include "gateway/look/answer.h"
#include "gateway/look/parts.h"
#include "proto/coding/gzip_stream.h"
#include "proto/pprof/write.h"

/* The frames of a node, outermost first: their numbers. */
static uint32_t path_of(const struct look_dict *d, uint32_t node, uint32_t ret[LOOK_STACK_MAX])
{
    uint32_t n = LOOK_STACK_MAX;
    for (; node != LOOK_ROOT && n > 0; node = d->nodes.p[node].parent)
        ret[--n] = d->nodes.p[node].frame;
    memmove(ret, ret + n, (LOOK_STACK_MAX - n) * sizeof *ret);
    return LOOK_STACK_MAX - n;
}

/* ---- folded -------------------------------------------------------------------------------- */

/* What a line of folded stacks gives a meaning is another character, as proto/convert has it. */
static int put_name(struct buffer *out, struct bytes name)
{
    for (size_t i = 0; i < name.n; i++) {
        const uint8_t c = name.p[i] == ';' ? ':' : name.p[i] < ' ' || name.p[i] == 0x7f ? ' ' : name.p[i];
        int r = buffer_add(out, &c, 1);
        if (r < 0)
            return r;
    }
    return 0;
}

int look_write_folded(const struct look_asked *asked, struct buffer *out)
{
    cleanup(look_tree_release) struct look_tree tree;
    struct look_found found[LOOK_SIDES] = {0};
    uint32_t path[LOOK_STACK_MAX];
    int r = look_tree_of(asked, LOOK_ALL_NODES, &tree, found);
    for (uint32_t i = 1; r == 0 && i < tree.dict.nodes.n; i++) {
        if (tree.self[0].p[i] == 0)
            continue;
        const uint32_t n = path_of(&tree.dict, i, path);
        for (uint32_t k = 0; k < n && r == 0; k++) {
            const struct look_frame *frame = &tree.dict.frames.p[path[k]];
            r = k > 0 ? buffer_add_str(out, ";") : 0;
            r = r < 0 ? r : put_name(out, intern_get(&tree.dict.strings, frame->name));
            if (r == 0 && frame->line > 0)
                r = buffer_printf(out, ":%u", frame->line);
        }
        r = r < 0 ? r : buffer_printf(out, " %llu\n", (unsigned long long)tree.self[0].p[i]);
    }
    return r;
}

/* ---- pprof --------------------------------------------------------------------------------- */

struct exporting {
    const struct look_tree *tree;
    struct pprof_writer *w;
    uint32_t *mapping_of, *location_of; /* [string], [frame]: an id, 0 where there is none yet */
    uint32_t n_mappings, n_functions;
};

static struct bytes text(const struct exporting *x, uint32_t string)
{
    return intern_get(&x->tree->dict.strings, string);
}

static uint32_t mapping_id(struct exporting *x, uint32_t lib)
{
    if (lib == LOOK_EMPTY || x->mapping_of[lib] != 0)
        return x->mapping_of[lib];
    const struct pprof_mapping mapping = {.id = ++x->n_mappings,
                                          .filename = pprof_write_string(x->w, text(x, lib)),
                                          .has_functions = true,
                                          .has_filenames = true,
                                          .has_line_numbers = x->tree->detail == LOOK_LINES};
    pprof_write_mapping(x->w, &mapping);
    return x->mapping_of[lib] = x->n_mappings;
}

/* Of a frame: a location of one line, whose function has the same number. */
static uint32_t location_id(struct exporting *x, uint32_t number)
{
    const struct look_frame *frame = &x->tree->dict.frames.p[number];
    if (x->location_of[number] != 0)
        return x->location_of[number];
    const uint32_t id = ++x->n_functions, name = pprof_write_string(x->w, text(x, frame->name));
    const struct pprof_function function = {.id = id,
                                            .name = name,
                                            .system_name = name,
                                            .filename = pprof_write_string(x->w, text(x, frame->file))};
    pprof_write_function(x->w, &function);
    const struct pprof_line line = {.function = id, .line = frame->line};
    const struct pprof_location location = {.id = id, .mapping = mapping_id(x, frame->lib)};
    pprof_write_location(x->w, &location, &line, 1);
    return x->location_of[number] = id;
}

static void put_sample(struct exporting *x, uint32_t node)
{
    uint32_t path[LOOK_STACK_MAX], locations[LOOK_STACK_MAX];
    const uint32_t n = path_of(&x->tree->dict, node, path);
    for (uint32_t i = 0; i < n; i++)
        locations[i] = location_id(x, path[n - 1 - i]);
    const int64_t value = (int64_t)min_of(x->tree->self[0].p[node], (uint64_t)INT64_MAX);
    const struct pprof_sample sample = {.locations = locations, .n_locations = n, .values = &value};
    pprof_write_sample(x->w, &sample, 1);
}

struct bytes look_type_part(struct bytes id, uint32_t part)
{
    for (;; part--) {
        const uint8_t *colon = id.n > 0 ? memchr(id.p, ':', id.n) : NULL;
        if (part == 0)
            return bytes_of(id.p, colon ? (size_t)(colon - id.p) : id.n);
        id = colon ? bytes_from(id, (size_t)(colon - id.p) + 1) : bytes_of(id.p + id.n, 0);
    }
}

static struct pprof_type type_of(struct pprof_writer *w, struct bytes id, uint32_t part)
{
    return (struct pprof_type){pprof_write_string(w, look_type_part(id, part)),
                               pprof_write_string(w, look_type_part(id, part + 1))};
}

int look_write_profile(const struct look_asked *asked, const struct look_tree *tree,
                       const struct look_found *found, struct buffer *plain)
{
    struct pprof_writer w;
    const struct bytes id = asked->question->select[0].type;
    autofree uint32_t *numbers = calloc((size_t)tree->dict.strings.n + tree->dict.frames.n, sizeof *numbers);
    if (!numbers)
        return -ENOMEM;
    pprof_write_begin(&w, asked->budget, plain);
    struct exporting x = {tree, &w, numbers, numbers + tree->dict.strings.n, 0, 0};
    const struct pprof_type type = type_of(&w, id, 1);
    pprof_write_type(&w, &type);
    for (uint32_t i = 1; i < tree->dict.nodes.n; i++)
        if (tree->self[0].p[i] > 0)
            put_sample(&x, i);
    const struct pprof profile = {.period_type = type_of(&w, id, 3),
                                  .time_nanos = (int64_t)found->from_ns,
                                  .duration_nanos = (int64_t)(found->to_ns - found->from_ns)};
    pprof_write_profile(&w, &profile);
    return pprof_write_end(&w);
}

int look_write_pprof(const struct look_asked *asked, struct buffer *out)
{
    cleanup(look_tree_release) struct look_tree tree;
    struct look_found found[LOOK_SIDES] = {0};
    cleanup(buffer_release) struct buffer plain = BUFFER_INIT(LOOK_ANSWER_MAX);
    struct gzip_stream *gzip = gzip_stream_new();
    int r = look_tree_of(asked, LOOK_ALL_NODES, &tree, found);
    r = r != 0 ? r : gzip ? look_write_profile(asked, &tree, &found[0], &plain) : -ENOMEM;
    if (r == 0)
        r = gzip_stream_add(gzip, buffer_bytes(&plain), true, out);
    gzip_stream_free(gzip);
    return r;
}
