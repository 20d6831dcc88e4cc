/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of browse share: browse.c asks, browse_show.c draws, browse_keys.c does what somebody wants.
 * Private to gateway/top.
 */
#ifndef GATEWAY_TOP_BROWSE_PARTS_H
#define GATEWAY_TOP_BROWSE_PARTS_H

#include "gateway/top/browse_options.h"
#include "gateway/top/flame.h"
#include "gateway/top/line.h"
#include "gateway/top/stacks.h"
#include "gateway/top/terminal.h"

#define LABEL_MAX     BROWSE_NAME_MAX
#define SEARCH_MAX    64u
#define BROWSE_GROUPS 5u

enum pane { FLAME, FUNCTIONS, SANDWICH, DIFF, HELP };
enum sort { BY_SELF, BY_TOTAL };

struct browse_group {
    const char *name, *label; /* label: of the API; NULL: it cannot be asked for */
};
extern const struct browse_group browse_groups[BROWSE_GROUPS];

struct browse {
    struct browse_options options;
    struct browse_events events;
    struct io_loop *loop;
    struct io_timer *timer;
    struct terminal *terminal;
    struct top_fetch *fetch;
    struct top_url url; /* what is being asked */
    struct line_style style;

    uint32_t window_s, group;
    enum pane pane, before; /* before: where Esc goes to from callers and callees */
    enum pane asked;        /* what the answer that is waited for is of */
    enum sort sort;
    bool inside;                   /* keys are the pane's, not the list's */
    bool paused, typing, is_stale; /* is_stale: what is there is not of what is chosen */
    char label[LABEL_MAX];         /* who is chosen; "": everybody */
    char function[LABEL_MAX];
    char search[SEARCH_MAX];
    char message[192];     /* what went wrong, or was done */
    uint64_t root, cursor; /* marks of nodes, of callees where there are two trees */
    uint32_t row;          /* of the functions */

    struct stacks_rows list, top;
    struct stacks tree, callers;
};

/* Words for the line at the bottom, until the next key. */
__attribute__((format(printf, 2, 3))) void browse_say(struct browse *b, const char *format, ...);

/* Asks anew, for everything or for the pane, and forgets what is being asked. */
void browse_refresh(struct browse *b);
void browse_ask(struct browse *b);

/* The profile of what is chosen, into a file of the working directory. */
void browse_save(struct browse *b);

/* Draws everything; what is there already is not written again. Without a terminal nothing. */
void browse_show(struct browse *b);

/* Writes the flame graph with all its rows to stdout, once. 0 or -ENOMEM. */
int browse_print(struct browse *b);

/* The row of the list that is chosen, if it is there; 0: everybody. */
uint32_t browse_chosen(const struct browse *b);

/* A graph of a tree of it; `width` is of what was drawn last. */
struct flame browse_flame(const struct browse *b, const struct stacks *s, uint32_t height);

/* A key (terminal.h); user is a struct browse. */
void browse_press(void *user, uint32_t key);

#endif
