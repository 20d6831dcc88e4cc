/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/top/stacks.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "gateway/top/answer.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"

#define DEPTH_MAX 8
#define NODES_MAX (1u << 16) /* the API's */

/* What is no number is 0, and amounts are finite and not below. */
static double amount_of(json_object *value)
{
    const double v = answer_number(value);
    return isfinite(v) && v > 0 ? v : 0;
}

static double amount_in(json_object *of, const char *name)
{
    json_object *value = NULL;
    json_object_object_get_ex(of, name, &value); /* false of what is no object */
    return amount_of(value);
}

static double amount_at(json_object *list, uint32_t i)
{
    return i < answer_length(list) ? amount_of(json_object_array_get_idx(list, i)) : 0;
}

/* An index; -1 for what is none. */
static int64_t index_at(json_object *list, uint32_t i)
{
    json_object *value = i < answer_length(list) ? json_object_array_get_idx(list, i) : NULL;
    return json_object_is_type(value, json_type_int) ? json_object_get_int64(value) : -1;
}

/* A copy; "" for what is no string. .p NULL: memory is out. */
static struct bytes text_of(struct arena *a, json_object *value)
{
    if (!json_object_is_type(value, json_type_string))
        return BYTES_LIT("");
    return arena_copy(a, bytes_of(json_object_get_string(value), (size_t)json_object_get_string_len(value)));
}

static struct bytes text_in(struct arena *a, json_object *of, const char *name)
{
    return text_of(a, answer_member(of, name, json_type_string));
}

static enum stacks_kind kind_of(struct bytes text)
{
    static const struct {
        const char *name;
        enum stacks_kind kind;
    } kinds[] = {{"kernel", STACKS_KERNEL}, {"native", STACKS_NATIVE}, {"rust", STACKS_NATIVE},
                 {"go", STACKS_GO},         {"jvm", STACKS_JVM},       {"cpython", STACKS_CPYTHON},
                 {"v8js", STACKS_V8},       {"dotnet", STACKS_DOTNET}, {"ruby", STACKS_RUBY},
                 {"php", STACKS_PHP},       {"perl", STACKS_PERL},     {"beam", STACKS_BEAM}};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (bytes_is(text, kinds[i].name))
            return kinds[i].kind;
    return STACKS_OTHER;
}

/* ---- a tree ------------------------------------------------------------------------------------ */

static int take_columns(struct stacks *s, json_object *node, uint32_t n)
{
    struct arena *a = &s->arena;
    json_object *const self = answer_member(node, "self", json_type_array),
                       *const total = answer_member(node, "total", json_type_array),
                       *const total_b = answer_member(node, "total_b", json_type_array),
                       *const parent = answer_member(node, "parent", json_type_array);
    s->parent = arena_calloc(a, n, sizeof *s->parent);
    s->first = arena_calloc(a, n, sizeof *s->first);
    s->next = arena_calloc(a, n, sizeof *s->next);
    s->self = arena_calloc(a, n, sizeof *s->self);
    s->total = arena_calloc(a, n, sizeof *s->total);
    s->total_b = total_b ? arena_calloc(a, n, sizeof *s->total_b) : NULL;
    s->mark = arena_calloc(a, n, sizeof *s->mark);
    s->names = arena_calloc(a, n, sizeof *s->names);
    if (!s->parent || !s->first || !s->next || !s->self || !s->total || (total_b && !s->total_b) ||
        !s->mark || !s->names)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        const int64_t above = index_at(parent, i);
        s->parent[i] = i == 0                    ? -1
                       : above >= 0 && above < i ? (int32_t)above
                                                 : 0; /* else no tree: at the root */
        s->self[i] = amount_at(self, i);
        s->total[i] = amount_at(total, i);
        if (total_b)
            s->total_b[i] = amount_at(total_b, i);
        s->first[i] = s->next[i] = -1;
    }
    s->n = n;
    return 0;
}

/* Each distinct string is copied once. */
static int take_names(struct stacks *s, json_object *root, json_object *node)
{
    json_object *const strings = answer_member(root, "strings", json_type_array),
                       *const frame = answer_member(root, "frame", json_type_object),
                       *const names = answer_member(frame, "name", json_type_array),
                       *const libs = answer_member(frame, "lib", json_type_array),
                       *const kinds = answer_member(frame, "kind", json_type_array),
                       *const frames = answer_member(node, "frame", json_type_array);
    const uint32_t n = answer_length(strings);
    struct bytes *texts = arena_calloc(&s->arena, n ? n : 1, sizeof *texts);
    if (!texts)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) {
        texts[i] = text_of(&s->arena, json_object_array_get_idx(strings, i));
        if (!texts[i].p)
            return -ENOMEM;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        const int64_t f = index_at(frames, i);
        json_object *const columns[] = {names, libs, kinds};
        struct bytes got[3];
        for (size_t k = 0; k < 3; k++) {
            const int64_t at = f >= 0 && f < UINT32_MAX ? index_at(columns[k], (uint32_t)f) : -1;
            got[k] = at >= 0 && at < n ? texts[at] : BYTES_LIT("");
        }
        s->names[i] = (struct stacks_name){got[0], got[1], kind_of(got[2])};
        s->mark[i] = i == 0 ? 1 : hash_bytes(got[0], s->mark[s->parent[i]]);
    }
    return 0;
}

static int by_share(const void *a, const void *b, void *user)
{
    const struct stacks *s = user;
    const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const double x = stacks_share(s, i), y = stacks_share(s, k);
    return order_of(x, y) ?: order_of(k, i);
}

static int link_children(struct stacks *s)
{
    uint32_t *order = arena_calloc(&s->arena, s->n, sizeof *order);
    if (!order)
        return -ENOMEM;
    for (uint32_t i = 0; i < s->n; i++)
        order[i] = i;
    qsort_r(order, s->n, sizeof *order, by_share, s);
    for (uint32_t i = 0; i < s->n; i++) {
        const uint32_t node = order[i];
        if (node == 0)
            continue;
        s->next[node] = s->first[s->parent[node]];
        s->first[s->parent[node]] = (int32_t)node;
    }
    return 0;
}

int stacks_read(struct bytes text, const char *which, struct stacks *ret)
{
    struct stacks s = {0};
    json_object *root = answer_parse(text, DEPTH_MAX), *node = answer_member(root, which, json_type_object);
    const uint32_t n = answer_length(answer_member(node, "parent", json_type_array));
    int r = n == 0 || n > NODES_MAX ? STACKS_FOREIGN : take_columns(&s, node, n);
    if (r == 0)
        r = take_names(&s, root, node);
    if (r == 0)
        r = link_children(&s);
    if (r == 0) {
        json_object *a = answer_member(root, "a", json_type_object);
        s.kept_a = amount_in(a ? a : root, "kept");
        s.not_kept = amount_in(a ? a : root, "not_kept");
        s.kept_b = amount_in(answer_member(root, "b", json_type_object), "kept");
        s.unit = text_in(&s.arena, root, "unit");
        r = s.unit.p ? 0 : -ENOMEM;
    }
    json_object_put(root);
    if (r == 0)
        *ret = s;
    else
        arena_release(&s.arena);
    return r;
}

void stacks_release(struct stacks *s)
{
    arena_release(&s->arena);
    *s = (struct stacks){0};
}

static double share_of(double part, double whole)
{
    return whole > 0 ? min_of(part / whole, 1.0) : 0;
}

double stacks_share(const struct stacks *s, uint32_t node)
{
    const double a = share_of(s->total[node], s->total[0]);
    return s->total_b ? (a + share_of(s->total_b[node], s->total_b[0])) / 2 : a;
}

double stacks_change(const struct stacks *s, uint32_t node)
{
    if (!s->total_b)
        return 0;
    const double a = share_of(s->total[node], s->total[0]), b = share_of(s->total_b[node], s->total_b[0]);
    const double chance = 2 * sqrt(a / max_of(s->kept_a, 1.0) + b / max_of(s->kept_b, 1.0));
    return a + b <= 0 || fabs(b - a) < chance ? 0 : (b - a) / (a + b);
}

uint32_t stacks_find(const struct stacks *s, uint64_t mark)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->mark[i] == mark)
            return i;
    return 0;
}

/* ---- rows -------------------------------------------------------------------------------------- */

static int take_values(struct stacks_rows *rows, struct stacks_row *row, json_object *values)
{
    const uint32_t n = answer_length(values), from = n > STACKS_VALUES ? n - STACKS_VALUES : 0;
    for (uint32_t i = from; i < n; i++) {
        const double v = amount_at(values, i);
        row->values[i - from] = v;
        row->total += v / n;
    }
    row->self = row->total;
    rows->n_values = max_of(rows->n_values, n - from);
    rows->total += row->total;
    return row->name.p ? 0 : -ENOMEM;
}

static int finish(struct stacks_rows *rows, json_object *root, int r, struct stacks_rows *ret)
{
    json_object_put(root);
    if (r == 0)
        *ret = *rows;
    else
        arena_release(&rows->arena);
    return r;
}

int stacks_read_series(struct bytes text, struct stacks_rows *ret)
{
    struct stacks_rows s = {0};
    json_object *root = answer_parse(text, DEPTH_MAX), *list = answer_member(root, "series", json_type_array),
                *other = answer_member(root, "other", json_type_array);
    const uint32_t n = min_of(answer_length(list), STACKS_ROWS - 1);
    if (!list)
        return finish(&s, root, STACKS_FOREIGN, ret);
    s.rows = arena_calloc(&s.arena, n + 1, sizeof *s.rows);
    s.unit = text_in(&s.arena, root, "unit");
    int r = s.rows && s.unit.p ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < n && r == 0; i++) {
        json_object *from = json_object_array_get_idx(list, i);
        s.rows[s.n].name = text_in(&s.arena, from, "label");
        r = take_values(&s, &s.rows[s.n++], answer_member(from, "values", json_type_array));
    }
    if (r == 0 && answer_length(other) > 0) {
        s.rows[s.n].lib = BYTES_LIT("others"); /* no label: nothing to select */
        s.rows[s.n].name = BYTES_LIT("");
        r = take_values(&s, &s.rows[s.n++], other);
    }
    return finish(&s, root, r, ret);
}

int stacks_read_top(struct bytes text, struct stacks_rows *ret)
{
    struct stacks_rows s = {0};
    json_object *root = answer_parse(text, DEPTH_MAX), *list = answer_member(root, "rows", json_type_array);
    const uint32_t n = min_of(answer_length(list), STACKS_ROWS);
    if (!list)
        return finish(&s, root, STACKS_FOREIGN, ret);
    s.total = amount_in(root, "total");
    s.rows = arena_calloc(&s.arena, n + 1, sizeof *s.rows);
    s.unit = text_in(&s.arena, root, "unit");
    int r = s.rows && s.unit.p ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < n && r == 0; i++) {
        json_object *from = json_object_array_get_idx(list, i);
        struct stacks_row *row = &s.rows[s.n++];
        row->name = text_in(&s.arena, from, "name");
        row->lib = text_in(&s.arena, from, "lib");
        row->self = amount_in(from, "self");
        row->total = amount_in(from, "total");
        json_object *kind = answer_member(from, "kind", json_type_string);
        row->kind = kind ? kind_of(bytes_str(json_object_get_string(kind))) : STACKS_OTHER;
        r = row->name.p && row->lib.p ? 0 : -ENOMEM;
    }
    return finish(&s, root, r, ret);
}

void stacks_rows_release(struct stacks_rows *r)
{
    arena_release(&r->arena);
    *r = (struct stacks_rows){0};
}
