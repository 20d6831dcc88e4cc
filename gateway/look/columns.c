/* SPDX-License-Identifier: Apache-2.0 */
/* Trees as columns. */
#include <errno.h>

#include "gateway/look/parts.h"
#include "gateway/look/shown.h"

/* The strings and frames that any node shown has, with numbers of the answer. */
struct used {
    const struct look_dict *dict;
    bool lines;
    VEC(uint32_t) frame, string;   /* [number] in the answer + 1; 0: none of it has it */
    VEC(uint32_t) frames, strings; /* of the dictionary, in the order of the answer */
};

/* ---- frames and strings -------------------------------------------------------------------- */

static int use_string(struct used *u, uint32_t string)
{
    if (u->string.p[string] != 0)
        return 0;
    int r = vec_append(&u->strings, string);
    u->string.p[string] = u->strings.n;
    return r;
}

static int use_frame(struct used *u, uint32_t frame)
{
    if (frame == LOOK_NONE || u->frame.p[frame] != 0)
        return 0;
    const struct look_frame *f = &u->dict->frames.p[frame];
    if (vec_append(&u->frames, frame) < 0 || use_string(u, f->name) < 0 || use_string(u, f->lib) < 0 ||
        use_string(u, f->file) < 0 || use_string(u, f->kind) < 0)
        return -ENOMEM;
    u->frame.p[frame] = u->frames.n;
    return 0;
}

static int used_init(struct used *u, const struct look_tree *t)
{
    *u = (struct used){.dict = &t->dict, .lines = t->detail == LOOK_LINES};
    u->frame.budget = u->string.budget = u->frames.budget = u->strings.budget = t->budget;
    int r = vec_extend(&u->frame, t->dict.frames.n);
    r = r < 0 ? r : vec_extend(&u->string, t->dict.strings.n);
    return r < 0 ? r : use_string(u, LOOK_EMPTY);
}

static void used_release(struct used *u)
{
    vec_release(&u->frame);
    vec_release(&u->string);
    vec_release(&u->frames);
    vec_release(&u->strings);
}

static int use_all(struct used *u, const struct look_shown *s)
{
    int r = use_frame(u, s->root_frame);
    for (uint32_t i = 1; i < s->n && r == 0; i++)
        if (s->number.p[i] != LOOK_NONE)
            r = use_frame(u, s->nodes[i].frame);
    return r;
}

static void put_part(struct json *j, const struct used *u, const char *name, size_t offset, bool is_string)
{
    json_key(j, name), json_open(j, '[');
    for (uint32_t i = 0; i < u->frames.n; i++) {
        const uint32_t part =
            *(const uint32_t *)((const uint8_t *)&u->dict->frames.p[u->frames.p[i]] + offset);
        json_u64(j, is_string ? u->string.p[part] - 1 : part);
    }
    json_close(j, ']');
}

static void put_used(struct json *j, const struct used *u)
{
    json_key(j, "strings"), json_open(j, '[');
    for (uint32_t i = 0; i < u->strings.n; i++)
        json_string(j, intern_get(&u->dict->strings, u->strings.p[i]));
    json_close(j, ']');
    json_key(j, "frame"), json_open(j, '{');
    put_part(j, u, "name", offsetof(struct look_frame, name), true);
    put_part(j, u, "lib", offsetof(struct look_frame, lib), true);
    put_part(j, u, "file", offsetof(struct look_frame, file), true);
    put_part(j, u, "kind", offsetof(struct look_frame, kind), true);
    put_part(j, u, "inlined", offsetof(struct look_frame, inlined), false);
    if (u->lines)
        put_part(j, u, "line", offsetof(struct look_frame, line), false);
    json_close(j, '}');
}

/* ---- nodes --------------------------------------------------------------------------------- */

static void put_numbers(struct json *j, const struct look_shown *s, const char *name, const uint64_t *values)
{
    json_key(j, name), json_open(j, '[');
    for (uint32_t i = 0; i < s->n; i++)
        if (s->number.p[i] != LOOK_NONE)
            json_u64(j, values[i]);
    json_close(j, ']');
}

static void put_nodes(struct json *j, const struct used *u, const struct look_shown *s, const char *name)
{
    static const char *const names[][3] = {{"self", "total", "more"}, {"self_b", "total_b", "more_b"}};
    json_key(j, name), json_open(j, '{');
    json_key(j, "parent"), json_open(j, '[');
    json_i64(j, -1);
    for (uint32_t i = 1; i < s->n; i++)
        if (s->number.p[i] != LOOK_NONE)
            json_u64(j, s->number.p[s->nodes[i].parent]);
    json_close(j, ']');
    json_key(j, "frame"), json_open(j, '[');
    json_i64(j, s->root_frame == LOOK_NONE ? -1 : (int64_t)u->frame.p[s->root_frame] - 1);
    for (uint32_t i = 1; i < s->n; i++)
        if (s->number.p[i] != LOOK_NONE)
            json_u64(j, u->frame.p[s->nodes[i].frame] - 1);
    json_close(j, ']');
    for (uint32_t side = 0; side < s->n_sides; side++) {
        put_numbers(j, s, names[side][0], s->self[side]);
        put_numbers(j, s, names[side][1], s->total[side]);
        put_numbers(j, s, names[side][2], s->more[side].p);
    }
    json_close(j, '}');
}

/* ---- flame and diff ------------------------------------------------------------------------ */

static int put_tree(const struct look_asked *asked, struct json *j, const struct look_tree *t,
                    uint32_t n_sides)
{
    cleanup(look_shown_release) struct look_shown shown = look_shown_of(t, n_sides);
    cleanup(used_release) struct used used;
    int r = look_shown_choose(&shown, asked->question->nodes, t->budget);
    int made = used_init(&used, t);
    r = r < 0 ? r : made < 0 ? made : use_all(&used, &shown);
    if (r == 0) {
        put_used(j, &used);
        put_nodes(j, &used, &shown, "node");
    }
    return r;
}

int look_write_flame(const struct look_asked *asked, const struct look_tree *tree,
                     const struct look_found *found, struct json *j)
{
    return put_tree(asked, j, tree, 1);
}

int look_write_diff(const struct look_asked *asked, const struct look_tree *tree,
                    const struct look_found *found, struct json *j)
{
    static const char *const names[] = {"a", "b"};
    look_put_type(j, asked->question, found[0].unit.n > 0 ? found[0].unit : found[1].unit);
    for (uint32_t i = 0; i < LOOK_SIDES; i++) {
        json_key(j, names[i]), json_open(j, '{');
        look_put_window(j, &found[i]);
        json_key(j, "total"), json_u64(j, tree->total[i].p[LOOK_ROOT]);
        look_put_counts(j, &found[i], tree, i);
        json_close(j, '}');
    }
    return put_tree(asked, j, tree, 2);
}

/* ---- sandwich ------------------------------------------------------------------------------ */

/* A tree over another one's frames. */
struct partial {
    VEC(struct look_node) nodes;
    struct hash_table node_of;
    VEC(uint64_t) self, total;
};

static int partial_init(struct partial *p, struct budget *budget)
{
    *p = (struct partial){0};
    p->nodes.budget = p->node_of.budget = p->self.budget = p->total.budget = budget;
    int r = vec_append(&p->nodes, (struct look_node){LOOK_ROOT, LOOK_NONE});
    return r < 0 ? r : vec_append(&p->self, 0);
}

static void partial_release(struct partial *p)
{
    vec_release(&p->nodes);
    hash_table_release(&p->node_of);
    vec_release(&p->self);
    vec_release(&p->total);
}

static uint32_t partial_node(struct partial *p, uint32_t parent, uint32_t frame)
{
    const struct look_node node = {parent, frame};
    const uint32_t number = LOOK_FIND_OR_ADD(&p->nodes, &p->node_of, &node);
    return number == LOOK_NONE || vec_extend(&p->self, p->nodes.n) < 0 ? LOOK_NONE : number;
}

static int partial_sum(struct partial *p)
{
    if (vec_append_all(&p->total, p->self.p, p->nodes.n) < 0)
        return -ENOMEM;
    for (uint32_t i = p->nodes.n; i-- > 1;)
        p->total.p[p->nodes.p[i].parent] = look_add(p->total.p[p->nodes.p[i].parent], p->total.p[i]);
    return 0;
}

/* Who called it, to the outermost. */
static int add_callers(struct partial *p, const struct look_tree *t, uint32_t node)
{
    uint32_t at = LOOK_ROOT;
    for (uint32_t i = t->dict.nodes.p[node].parent; i != LOOK_ROOT && at != LOOK_NONE;
         i = t->dict.nodes.p[i].parent)
        at = partial_node(p, at, t->dict.nodes.p[i].frame);
    if (at == LOOK_NONE)
        return -ENOMEM;
    p->self.p[at] = look_add(p->self.p[at], t->total[0].p[node]);
    return 0;
}

struct sandwich {
    struct partial callers, callees;
    uint32_t frame; /* the function's; LOOK_NONE: it is in no stack */
    uint64_t self;  /* its own, also where it was called by itself */
};

/* A function in a stack of which it is part already is a callee of itself. */
static int slice_tree(const struct look_tree *t, struct bytes function, struct sandwich *s)
{
    VEC(uint32_t) at = {.budget = t->budget}; /* [node] among callees + 1; 0: not below the function */
    int r = vec_extend(&at, t->dict.nodes.n);
    for (uint32_t i = 1; r == 0 && i < t->dict.nodes.n; i++) {
        const struct look_node *node = &t->dict.nodes.p[i];
        if (t->total[0].p[i] == 0)
            continue;
        const bool is_it =
            bytes_eq(intern_get(&t->dict.strings, t->dict.frames.p[node->frame].name), function);
        s->self = look_add(s->self, is_it ? t->self[0].p[i] : 0);
        if (at.p[node->parent] != 0) {
            const uint32_t callee = partial_node(&s->callees, at.p[node->parent] - 1, node->frame);
            r = callee == LOOK_NONE ? -ENOMEM : 0;
            at.p[i] = callee + 1;
        } else if (is_it) {
            s->frame = s->frame == LOOK_NONE ? node->frame : s->frame;
            at.p[i] = LOOK_ROOT + 1;
            r = add_callers(&s->callers, t, i);
        }
        if (r == 0 && at.p[i] != 0)
            s->callees.self.p[at.p[i] - 1] = look_add(s->callees.self.p[at.p[i] - 1], t->self[0].p[i]);
    }
    vec_release(&at);
    r = r < 0 ? r : partial_sum(&s->callers);
    return r < 0 ? r : partial_sum(&s->callees);
}

static struct look_shown shown_of_partial(const struct partial *p, uint32_t frame)
{
    return (struct look_shown){.nodes = p->nodes.p,
                               .n = p->nodes.n,
                               .n_sides = 1,
                               .self = {p->self.p},
                               .total = {p->total.p},
                               .root_frame = frame};
}

static int put_sandwich(const struct look_asked *asked, struct json *j, const struct look_tree *t,
                        const struct sandwich *s)
{
    struct look_shown callers = shown_of_partial(&s->callers, s->frame),
                      callees = shown_of_partial(&s->callees, s->frame);
    struct used used;
    int made = used_init(&used, t);
    int r = look_shown_choose(&callers, asked->question->nodes, t->budget);
    r = r < 0 ? r : look_shown_choose(&callees, asked->question->nodes, t->budget);
    r = r < 0 ? r : made < 0 ? made : use_all(&used, &callers);
    r = r < 0 ? r : use_all(&used, &callees);
    if (r == 0) {
        json_key(j, "function"), json_string(j, asked->question->function);
        json_key(j, "self"), json_u64(j, s->self);
        json_key(j, "total"), json_u64(j, s->callees.total.p[LOOK_ROOT]);
        put_used(j, &used);
        put_nodes(j, &used, &callers, "callers");
        put_nodes(j, &used, &callees, "callees");
    }
    used_release(&used);
    look_shown_release(&callers);
    look_shown_release(&callees);
    return r;
}

int look_write_sandwich(const struct look_asked *asked, const struct look_tree *tree,
                        const struct look_found *found, struct json *j)
{
    struct sandwich s = {.frame = LOOK_NONE};
    int callers = partial_init(&s.callers, asked->budget), callees = partial_init(&s.callees, asked->budget);
    int r = callers < 0 ? callers : callees < 0 ? callees : slice_tree(tree, asked->question->function, &s);
    if (r == 0)
        r = put_sandwich(asked, j, tree, &s);
    partial_release(&s.callers);
    partial_release(&s.callees);
    return r;
}
