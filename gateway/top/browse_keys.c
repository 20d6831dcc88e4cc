/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "gateway/top/browse_parts.h"
#include "proto/base/macros.h"

static const uint32_t windows[] = {60, 300, 900, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600};

static void forget_place(struct browse *b)
{
    b->root = b->cursor = 0;
    b->row = 0;
}

static void choose(struct browse *b, uint32_t i)
{
    const struct stacks_row *row = i > 0 && i <= b->list.n ? &b->list.rows[i - 1] : NULL;
    if (row && (row->lib.n > 0 || row->name.n == 0 || row->name.n >= LABEL_MAX))
        return;
    snprintf(b->label, sizeof b->label, "%.*s", row ? (int)row->name.n : 0,
             row ? (const char *)row->name.p : "");
    forget_place(b);
    browse_ask(b);
}

static void open_pane(struct browse *b, enum pane pane)
{
    if (pane != b->pane && b->pane != HELP)
        b->before = b->pane == SANDWICH ? b->before : b->pane;
    b->pane = pane;
    forget_place(b);
    browse_ask(b);
}

/* Callers and callees of what is under the cursor. */
static void open_function(struct browse *b)
{
    const uint32_t i = b->tree.n > 0 && b->pane != FUNCTIONS ? stacks_find(&b->tree, b->cursor) : 0;
    const struct bytes name = b->pane == FUNCTIONS
                                  ? (b->row < b->top.n ? b->top.rows[b->row].name : BYTES_LIT(""))
                              : i > 0 ? b->tree.names[i].name
                                      : BYTES_LIT("");
    if (name.n == 0 || name.n >= LABEL_MAX) {
        browse_say(b, "%s",
                   name.n > 0 ? "that name is too long to ask for"
                              : "choose a frame first: Enter, then the arrows");
        return;
    }
    snprintf(b->function, sizeof b->function, "%.*s", (int)name.n, (const char *)name.p);
    open_pane(b, SANDWICH);
}

static void move_in_graph(struct browse *b, uint32_t key)
{
    const enum flame_step step = key == TERMINAL_UP     ? FLAME_PARENT
                                 : key == TERMINAL_DOWN ? FLAME_CHILD
                                 : key == TERMINAL_LEFT ? FLAME_BEFORE
                                                        : FLAME_AFTER;
    if (b->tree.n == 0)
        return;
    const struct flame f = browse_flame(b, &b->tree, 1);
    const int64_t node = flame_step(&f, step);
    if (node >= 0)
        b->cursor = b->tree.mark[node];
}

static void move(struct browse *b, uint32_t key)
{
    const bool is_list = !b->inside || b->pane == FUNCTIONS;
    const uint32_t n = b->inside ? b->top.n : b->list.n + 1, at = b->inside ? b->row : browse_chosen(b);
    if (!is_list) {
        move_in_graph(b, key);
        return;
    }
    const uint32_t to = key == TERMINAL_UP          ? (at > 0 ? at - 1 : 0)
                        : key == TERMINAL_DOWN      ? at + 1
                        : key == TERMINAL_PAGE_UP   ? (at > 10 ? at - 10 : 0)
                        : key == TERMINAL_PAGE_DOWN ? at + 10
                        : key == TERMINAL_HOME      ? 0
                        : key == TERMINAL_END       ? UINT32_MAX
                                                    : at;
    const uint32_t row = min_of(to, n > 0 ? n - 1 : 0);
    if (b->inside)
        b->row = row;
    else if (row != at)
        choose(b, row);
}

static void enter(struct browse *b)
{
    if (!b->inside)
        b->inside = true;
    else if (b->pane == FUNCTIONS)
        open_function(b);
    else
        b->root = b->cursor;
}

static void leave(struct browse *b)
{
    if (b->search[0])
        b->search[0] = 0;
    else if (b->pane == HELP || (b->pane == SANDWICH && b->root == 0))
        open_pane(b, b->before);
    else if (b->inside && b->root != 0 && b->tree.n > 0 && stacks_find(&b->tree, b->root) > 0)
        b->root = 0;
    else
        b->inside = false;
}

static void change_window(struct browse *b, bool is_longer)
{
    uint32_t i = 0;
    while (i + 1 < ARRAY_LEN(windows) && windows[i] < b->window_s)
        i++;
    i = is_longer ? min_of(i + 1, (uint32_t)ARRAY_LEN(windows) - 1) : i > 0 ? i - 1 : 0;
    b->window_s = windows[i];
    browse_refresh(b);
}

static void type(struct browse *b, uint32_t key)
{
    size_t n = strlen(b->search);
    if (key == TERMINAL_ENTER || key == TERMINAL_ESCAPE)
        b->typing = false;
    if (key == TERMINAL_ESCAPE)
        b->search[0] = 0;
    else if (key == TERMINAL_BACKSPACE)
        while (n > 0 && ((uint8_t)b->search[--n] & 0xc0) == 0x80)
            b->search[n] = 0;
    if (key == TERMINAL_BACKSPACE)
        b->search[n] = 0;
    for (int shift = 24; shift >= 0 && (key < TERMINAL_UP || key > TERMINAL_GONE) && n + 1 < sizeof b->search;
         shift -= 8)
        if (key >> shift & 0xff) {
            b->search[n++] = (char)(key >> shift);
            b->search[n] = 0;
        }
}

static void press_letter(struct browse *b, uint32_t key)
{
    if (key == 'f' || key == 't' || key == 'd')
        open_pane(b, key == 'f' ? FLAME : key == 't' ? FUNCTIONS : DIFF);
    else if (key == 'x')
        open_function(b);
    else if (key == '+' || key == '-')
        change_window(b, key == '+');
    else if (key == '/')
        b->typing = true;
    else if (key == 'e')
        browse_save(b);
    else if (key == 's') {
        b->sort = b->sort == BY_SELF ? BY_TOTAL : BY_SELF;
        open_pane(b, FUNCTIONS);
    } else if (key == 'g') {
        b->group = (b->group + 1) % BROWSE_GROUPS;
        b->label[0] = 0;
        forget_place(b);
        browse_refresh(b);
    } else if (key == 'p') {
        b->paused = !b->paused;
        if (!b->paused)
            browse_refresh(b);
    } else if (key == '?' && b->pane != HELP) {
        b->before = b->pane == SANDWICH ? b->before : b->pane;
        b->pane = HELP;
    }
}

void browse_press(void *user, uint32_t key)
{
    struct browse *b = user;
    b->message[0] = 0;
    if (key == TERMINAL_GONE || (key == 'q' && !b->typing)) {
        b->events.ended(b->events.user);
        return;
    }
    if (b->typing)
        type(b, key);
    else if (key == TERMINAL_ENTER)
        enter(b);
    else if (key == TERMINAL_ESCAPE)
        leave(b);
    else if (key >= TERMINAL_UP && key <= TERMINAL_END)
        move(b, key);
    else
        press_letter(b, key);
    browse_show(b);
}
