/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/look/dict.h"

#include <errno.h>

#include "proto/base/hash.h"

int look_dict_init(struct look_dict *d, struct budget *budget)
{
    *d = (struct look_dict){.strings = INTERN_INIT(budget)};
    d->strings.budget = d->strings.table.budget = budget;
    d->frames.budget = d->nodes.budget = d->frame_of.budget = d->node_of.budget = budget;
    struct look_frame not_kept = {0};
    if (look_dict_string(d, BYTES_LIT("")) != LOOK_EMPTY ||
        (not_kept.name = look_dict_string(d, BYTES_LIT("[not kept]"))) == LOOK_NONE ||
        look_dict_frame(d, &not_kept) == LOOK_NONE ||
        vec_append(&d->nodes, (struct look_node){LOOK_ROOT, LOOK_NONE}) < 0 ||
        look_dict_node(d, LOOK_ROOT, 0) != LOOK_NODE_NOT_KEPT)
        return -ENOMEM;
    return 0;
}

void look_dict_release(struct look_dict *d)
{
    intern_release(&d->strings);
    vec_release(&d->frames);
    vec_release(&d->nodes);
    hash_table_release(&d->frame_of);
    hash_table_release(&d->node_of);
}

uint32_t look_dict_string(struct look_dict *d, struct bytes text)
{
    return intern_add(&d->strings, text);
}

uint32_t look_dict_frame(struct look_dict *d, const struct look_frame *frame)
{
    return LOOK_FIND_OR_ADD(&d->frames, &d->frame_of, frame);
}

uint32_t look_dict_node(struct look_dict *d, uint32_t parent, uint32_t frame)
{
    const struct look_node node = {parent, frame};
    const uint64_t hash =
        hash_mix(hash_seed(), (uint64_t)parent << 32 | frame); /* a bijection: as good, and faster */
    struct hash_at at = hash_table_at(&d->node_of, hash);
    for (uint32_t i; (i = hash_table_next(&d->node_of, &at)) != HASH_NONE;)
        if (d->nodes.p[i].parent == parent && d->nodes.p[i].frame == frame)
            return i;
    if (vec_reserve(&d->nodes, (uint64_t)d->nodes.n + 1) < 0 ||
        hash_table_add(&d->node_of, at, d->nodes.n) < 0)
        return LOOK_NONE;
    d->nodes.p[d->nodes.n] = node;
    return d->nodes.n++;
}

uint32_t look_dict_copy_frame(struct look_dict *d, const struct look_dict *from, uint32_t number,
                              enum look_detail detail, uint32_t *strings)
{
    const struct look_frame *whole = &from->frames.p[number];
    struct look_frame frame = detail == LOOK_NAMES ? (struct look_frame){.name = whole->name} : *whole;
    uint32_t *const parts[] = {&frame.name, &frame.file, &frame.lib, &frame.kind};
    for (uint32_t i = 0; i < ARRAY_LEN(parts); i++) {
        const uint32_t was = *parts[i];
        *parts[i] = strings && strings[was] != LOOK_NONE
                        ? strings[was]
                        : look_dict_string(d, intern_get(&from->strings, was));
        if (*parts[i] == LOOK_NONE)
            return LOOK_NONE;
        if (strings)
            strings[was] = *parts[i];
    }
    frame.line = detail == LOOK_LINES ? frame.line : 0;
    return look_dict_frame(d, &frame);
}
