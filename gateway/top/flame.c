/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/top/flame.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/macros.h"
#include "proto/base/vec.h"

struct cell {
    uint32_t node, row, from, to; /* columns */
};

struct layout {
    VEC(struct cell) cells; /* by row, then column */
    uint32_t n_rows;
};

/* The page's colours (gateway/ui/assets/colors.js) as near as 256 come. */
static const char *const colors[STACKS_KINDS] = {
    [STACKS_OTHER] = "252", [STACKS_KERNEL] = "209",  [STACKS_NATIVE] = "110", [STACKS_GO] = "79",
    [STACKS_JVM] = "222",   [STACKS_CPYTHON] = "149", [STACKS_V8] = "217",     [STACKS_DOTNET] = "117",
    [STACKS_RUBY] = "142",  [STACKS_PHP] = "183",     [STACKS_PERL] = "180",   [STACKS_BEAM] = "182",
};

/* From all of it gone to all of it new. */
static const char *const changes[] = {"33", "75", "117", "153", "252", "223", "215", "208", "202"};

const char *flame_color(enum stacks_kind kind)
{
    return colors[kind];
}

static uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? c | 0x20 : c;
}

bool flame_matches(struct bytes name, struct bytes search)
{
    for (size_t at = 0; at + search.n <= name.n; at++) {
        size_t n = 0;
        while (n < search.n && lower(name.p[at + n]) == lower(search.p[n]))
            n++;
        if (n == search.n)
            return true;
    }
    return false;
}

static uint32_t depth_of(const struct stacks *s, uint32_t node)
{
    uint32_t depth = 0;
    for (; node > 0; node = (uint32_t)s->parent[node])
        depth++;
    return depth;
}

/* Everything from the top down to the root is as wide as there is room, then each row is made of the one
 * above. */
static int lay(const struct flame *f, struct layout *ret)
{
    const struct stacks *s = f->stacks;
    struct layout all = {0};
    *ret = all;
    if (s->n == 0)
        return 0;
    const double whole = stacks_share(s, f->root);
    int r = vec_extend(&all.cells, depth_of(s, f->root) + 1);
    uint32_t node = f->root, from = 0;
    for (uint32_t i = all.cells.n; r == 0 && i-- > 0; node = i > 0 ? (uint32_t)s->parent[node] : 0)
        all.cells.p[i] = (struct cell){node, i, 0, f->width};
    all.n_rows = all.cells.n;
    for (uint32_t row = all.cells.n > 0 ? all.cells.n - 1 : 0; r == 0 && whole > 0 && row < all.cells.n;
         row = from) {
        from = all.cells.n;
        for (uint32_t i = row; i < from && r == 0; i++) {
            const struct cell above = all.cells.p[i];
            double at = above.from;
            for (int32_t c = s->first[above.node]; c >= 0 && r == 0; c = s->next[c]) {
                const double end = at + stacks_share(s, (uint32_t)c) / whole * f->width;
                const uint32_t a = (uint32_t)lround(at), z = min_of((uint32_t)lround(end), above.to);
                if (z <= a)
                    break; /* and those that come are narrower */
                r = vec_append(&all.cells, ((struct cell){(uint32_t)c, above.row + 1, a, z}));
                all.n_rows = above.row + 2;
                at = end;
            }
        }
    }
    *ret = all;
    return r;
}

static const struct cell *cell_of(const struct layout *all, uint32_t node)
{
    for (uint32_t i = 0; i < all->cells.n; i++)
        if (all->cells.p[i].node == node)
            return &all->cells.p[i];
    return NULL;
}

static const char *color_of(const struct flame *f, uint32_t node)
{
    if (f->search.n > 0 && !flame_matches(f->stacks->names[node].name, f->search))
        return "240";
    if (!f->stacks->total_b)
        return colors[f->stacks->names[node].kind];
    return changes[(int)lround(stacks_change(f->stacks, node) * 4) + 4];
}

/* What a long name is known by: without folders, and what it returns, before it. */
static struct bytes brief(struct bytes name)
{
    size_t begin = 0;
    for (size_t i = 0; i + 1 < name.n && !strchr("(<[", name.p[i]); i++)
        if (name.p[i] == '/' || name.p[i] == ' ')
            begin = i + 1;
    return bytes_of(name.p + begin, name.n - begin);
}

static void draw_cell(const struct flame *f, const struct cell *c, struct line *l)
{
    char look[48];
    const bool is_cursor = f->has_cursor && c->node == f->cursor;
    const uint32_t room = c->to - c->from - (c->to - c->from > 2); /* the last column is the gap */
    struct bytes name =
        c->node == 0 && f->stacks->names[0].name.n == 0 ? BYTES_LIT("all") : f->stacks->names[c->node].name;
    if (line_columns(l->style, name) > room)
        name = brief(name);
    line_pad(l, c->from);
    snprintf(look, sizeof look, is_cursor ? "1;48;5;231;38;5;16" : "48;5;%s;38;5;16", color_of(f, c->node));
    line_look(l, look);
    if (!l->style->color && c->to - c->from > 1)
        line_printf(l, "|"); /* where it begins is to be seen without colours, too */
    if (room > 3)
        line_add(l, name, c->from + room - min_of(l->columns, c->from + room));
    line_pad(l, c->from + room);
    line_plain(l);
}

int64_t flame_rows(const struct flame *f)
{
    struct layout all;
    const int r = lay(f, &all);
    vec_release(&all.cells);
    return r < 0 ? r : (int64_t)all.n_rows;
}

int flame_draw(const struct flame *f, struct line *l)
{
    struct layout all;
    int r = lay(f, &all);
    const struct cell *cursor = r == 0 && f->has_cursor ? cell_of(&all, f->cursor) : NULL;
    /* The row of the cursor, and one behind it, are in sight. */
    const uint32_t first = cursor && cursor->row + 2 > f->height ? cursor->row + 2 - f->height : 0;
    for (uint32_t y = 0; y < f->height && r == 0; y++) {
        const uint32_t row = first + (f->up ? f->height - 1 - y : y);
        for (uint32_t i = 0; i < all.cells.n; i++)
            if (all.cells.p[i].row == row)
                draw_cell(f, &all.cells.p[i], l);
        line_end(l);
        r = l->r;
    }
    vec_release(&all.cells);
    return r;
}

int64_t flame_step(const struct flame *f, enum flame_step step)
{
    struct layout all;
    const int r = lay(f, &all);
    const struct cell *at = r == 0 ? cell_of(&all, f->cursor) : NULL;
    int64_t found = at ? at->node : f->root;
    if (at && step == FLAME_PARENT && at->node > 0)
        found = f->stacks->parent[at->node];
    for (const struct cell *c = all.cells.p; at && c < all.cells.p + all.cells.n; c++) {
        if (step == FLAME_CHILD && c->row == at->row + 1 &&
            (uint32_t)f->stacks->parent[c->node] == at->node) {
            found = c->node;
            break;
        }
        if ((step == FLAME_BEFORE && c + 1 == at && c->row == at->row) ||
            (step == FLAME_AFTER && c == at + 1 && c->row == at->row))
            found = c->node;
    }
    vec_release(&all.cells);
    return r < 0 ? r : found;
}
