/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings, frames and call paths as numbers. A stack is one number: its leaf's node in a trie of all calls,
 * in which a child's number is above its parent's, so that one pass from the last node to the first makes
 * totals of what each has itself. It only grows.
 */
#ifndef GATEWAY_LOOK_DICT_H
#define GATEWAY_LOOK_DICT_H

#include "gateway/look/batch.h"
#include "proto/base/hash_table.h"
#include "proto/base/intern.h"

/* Nodes that every one has. */
enum { LOOK_ROOT = 0, LOOK_NODE_NOT_KEPT = 1 };

/* …and how many of each it begins with. */
enum { LOOK_FIRST_STRING = 2, LOOK_FIRST_FRAME = 1, LOOK_FIRST_NODE = 2 };

#define LOOK_NONE UINT32_MAX

struct look_node {
    uint32_t parent, frame; /* the root's frame is LOOK_NONE */
};

struct look_dict {
    struct intern strings; /* [0] is "" */
    VEC(struct look_frame) frames;
    VEC(struct look_node) nodes;
    struct hash_table frame_of, node_of;
};

/* `budget`, which stays, is charged for all of it. 0 or -ENOMEM. Released in any case. */
int look_dict_init(struct look_dict *d, struct budget *budget);
void look_dict_release(struct look_dict *d);

/* The number of it, made if it is new; LOOK_NONE: no memory. */
uint32_t look_dict_string(struct look_dict *d, struct bytes text);
uint32_t look_dict_frame(struct look_dict *d, const struct look_frame *frame);
uint32_t look_dict_node(struct look_dict *d, uint32_t parent, uint32_t frame);

/* What frames are told apart by. */
enum look_detail { LOOK_NAMES, LOOK_FUNCTIONS /* and file, library, kind */, LOOK_LINES /* and line */ };

/* The frame of another one in this one, as far as the detail goes; `strings` are the other's numbers in this
 * one, LOOK_NONE where they are not known yet; NULL: nobody keeps them. LOOK_NONE: no memory. */
uint32_t look_dict_copy_frame(struct look_dict *d, const struct look_dict *from, uint32_t frame,
                              enum look_detail detail, uint32_t *strings);

/* The number of a record among those of a vector, by its bytes; added if it is new. */
#define LOOK_FIND_OR_ADD(vec, table, record)                                                  \
    ({                                                                                        \
        const uint64_t hash_ = hash_bytes(bytes_of((record), sizeof *(record)), hash_seed()); \
        struct hash_at at_ = hash_table_at((table), hash_);                                   \
        uint32_t found_;                                                                      \
        while ((found_ = hash_table_next((table), &at_)) != HASH_NONE)                        \
            if (memcmp(&(vec)->p[found_], (record), sizeof *(record)) == 0)                   \
                break;                                                                        \
        if (found_ == HASH_NONE && vec_reserve((vec), (uint64_t)(vec)->n + 1) == 0 &&         \
            hash_table_add((table), at_, (vec)->n) == 0) {                                    \
            found_ = (vec)->n;                                                                \
            (vec)->p[(vec)->n++] = *(record);                                                 \
        }                                                                                     \
        found_;                                                                               \
    })

#endif
