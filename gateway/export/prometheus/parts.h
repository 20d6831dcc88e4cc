/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels that many series have in common, as text that is made once: a resource's, and a label set's. The
 * labels of a series are one of each, merged by copying. Private to this folder.
 */
#ifndef GATEWAY_EXPORT_PROMETHEUS_PARTS_H
#define GATEWAY_EXPORT_PROMETHEUS_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/bytes.h"

/* A label of a part: the number of its name, and where its text ends in the part's. */
struct label_place {
    uint32_t name, end;
};

/* In the order of names, each once. What of the text is behind the last place stands behind all labels. */
struct label_part {
    struct label_place *places;
    uint32_t n;
    struct bytes text;
};

/* Writes the labels of two parts that have no name in common to `to`, which has room for both texts, in the
 * order of names; rank[name] is a name's place in that order. What is behind b's places is not written.
 * Returns the bytes. */
size_t label_parts_merge(const struct label_part *a, const struct label_part *b, const uint32_t *rank,
                         uint8_t *to);

#endif
