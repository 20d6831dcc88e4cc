/* SPDX-License-Identifier: Apache-2.0 */
/* Tables: rows of cells. */
#include "rules/parse/cells.h"
#include "rules/parse/parser.h"

static bool parse_columns(struct parser *p, struct ast_table *ret)
{
    struct list columns = {0};
    if (!expect_kind(p, TOKEN_PAREN))
        return false;
    do {
        struct ast_name name;
        if (!parse_name(p, "a column's name", &name))
            return false;
        if (columns.n == RULES_COLUMNS_MAX)
            return fail_as(p, "E127", name.place, NULL, "a table has at most %u columns", RULES_COLUMNS_MAX);
        for (uint32_t i = 0; i < columns.n; i++) {
            if (bytes_eq(((struct ast_name *)columns.items)[i].name, name.name))
                return fail_as(p, "E115", name.place, NULL, "the column `%.*s` stands there already",
                               BYTES_FMT(name.name));
        }
        if (!add_item(p, &columns, p->ast, &name))
            return false;
    } while (accept_kind(p, TOKEN_COMMA));
    ret->columns = columns.items;
    ret->n_columns = columns.n;
    return expect_kind(p, TOKEN_UNPAREN);
}

/* cell = text | "-" ., separated by commas. */
static bool parse_cells(struct parser *p, struct ast_row *ret)
{
    struct list cells = {0};
    uint32_t from = p->at;
    do {
        const bool is_none = accept_kind(p, TOKEN_DASH);
        struct ast *text = is_none ? NULL : parse_text(p);
        if ((!text && !is_none) || !add_item(p, &cells, p->ast, &text))
            return false;
    } while (accept_kind(p, TOKEN_COMMA));
    ret->cells = cells.items;
    ret->n_cells = cells.n;
    ret->cells_place = place_since(p, from);
    return true;
}

/* row = (frame | "else") [ "when" sample ] "=>" cell { "," cell } . */
static bool parse_row(struct parser *p, struct ast_row *ret)
{
    uint32_t from = p->at;
    if (!accept_word(p, WORD_ELSE) && !(ret->frame = parse_frame(p)))
        return false;
    ret->frame_place = place_since(p, from);
    if (accept_word(p, WORD_WHEN) && !(ret->when = parse_sample(p)))
        return false;
    if (!accept_kind(p, TOKEN_ARROW))
        return fail(p, "`=>` and the row's cells");
    if (!parse_cells(p, ret))
        return false;
    ret->place = place_since(p, from);
    return true;
}

/* To the end of a row that could not be read: the next line that holds an `=>` of its own, or the end of the
 * table. */
static void recover_row(struct parser *p)
{
    p->panic = false;
    uint32_t line = peek(p, 0)->place.line;
    while (!at_kind(p, 0, TOKEN_END) && !at_kind(p, 0, TOKEN_UNBRACE)) {
        const struct token *t = peek(p, 0);
        if (t->place.line != line) {
            if (at_margin(p))
                return;
            line = t->place.line;
            for (uint32_t i = 0; peek(p, i)->place.line == line && peek(p, i)->kind != TOKEN_END; i++) {
                if (peek(p, i)->kind == TOKEN_ARROW)
                    return;
            }
        }
        next(p);
    }
}

bool parse_rows(struct parser *p, struct ast_table *ret, bool extend)
{
    struct list rows = {0};
    bool good = true;
    while (!at_kind(p, 0, TOKEN_UNBRACE)) {
        if (at_kind(p, 0, TOKEN_END) || at_margin(p))
            return fail(p, "a row or the table's `}`");
        struct ast_row row = {0};
        if (!parse_row(p, &row)) {
            if (p->oom)
                return false;
            recover_row(p);
            good = false;
            continue;
        }
        if (!extend && !cells_fit(ret, &row, p->report))
            good = false;
        if (extend && !row.frame) {
            fail_as(p, "E133", row.frame_place, "give the row a condition",
                    "rows of `extend` stand above the table's own: `else` would leave nothing for them");
            p->panic = false;
            good = false;
        }
        if (rows.n == RULES_ROWS_MAX)
            return fail_as(p, "E127", row.place, NULL, "a table has at most %u rows", RULES_ROWS_MAX);
        const struct ast_row *last = rows.n > 0 ? (struct ast_row *)rows.items + rows.n - 1 : NULL;
        if (last && !last->frame && !last->when) {
            fail_as(p, "E126", row.place, NULL,
                    "`else` stands in the last row: nothing is left for this one");
            p->panic = false;
            good = false;
        }
        if (!add_item(p, &rows, p->ast, &row))
            return false;
    }
    next(p);
    ret->rows = rows.items;
    ret->n_rows = rows.n;
    return good;
}

/* "table" NAME columns [ "over" (NAME | "frames") [ "nearest" "leaf" ] ] "{" { row } "}", behind the name. */
bool parse_table(struct parser *p, struct ast_table *ret)
{
    if (!parse_columns(p, ret))
        return false;
    if (accept_word(p, WORD_OVER)) {
        ret->over = true;
        if (!accept_word(p, WORD_FRAMES) && !parse_name(p, "a region's name or `frames`", &ret->region))
            return false;
        if (accept_word(p, WORD_NEAREST)) {
            ret->nearest_leaf = true;
            if (!expect_word(p, WORD_LEAF, "leaf"))
                return false;
        }
    }
    return expect_kind(p, TOKEN_BRACE) && parse_rows(p, ret, false);
}
