/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A terminal that a program has for itself: an alternate screen whose lines are written when they change, and
 * keys as they are pressed. xterm's control sequences, which every terminal of this century understands.
 */
#ifndef GATEWAY_TOP_TERMINAL_H
#define GATEWAY_TOP_TERMINAL_H

#include <stdint.h>

#include "proto/base/buffer.h"

struct io_loop;
struct terminal;

/* Keys that are no character of their own; those are themselves, in UTF-8 up to 4 bytes as one number, first
 * byte highest. */
enum terminal_key {
    TERMINAL_UP = 0x110000,
    TERMINAL_DOWN,
    TERMINAL_LEFT,
    TERMINAL_RIGHT,
    TERMINAL_PAGE_UP,
    TERMINAL_PAGE_DOWN,
    TERMINAL_HOME,
    TERMINAL_END,
    TERMINAL_ENTER,
    TERMINAL_ESCAPE,
    TERMINAL_BACKSPACE,
    TERMINAL_TAB,
    TERMINAL_RESIZED, /* its size is another one */
    TERMINAL_GONE,    /* nobody can press anything any more */
};

/* Takes standard input and output. `pressed` is called from the loop. NULL: memory is out, or it is no
 * terminal. */
struct terminal *terminal_new(struct io_loop *loop, void (*pressed)(void *user, uint32_t key), void *user);

/* Gives it back as it was; the rest of the closing is the loop's. NULL is fine. Returns NULL. */
struct terminal *terminal_free(struct terminal *t);

void terminal_size(uint32_t *ret_columns, uint32_t *ret_rows);

/* Shows these lines, ended by '\n', from the top: of them those that are not there yet. 0 or -ENOMEM. */
int terminal_show(struct terminal *t, struct bytes lines);

/* What stands there, as it was given. */
struct bytes terminal_shown(const struct terminal *t);

#endif
