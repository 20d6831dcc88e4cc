/* SPDX-License-Identifier: Apache-2.0 */
/* needs: gateway/kafka */
#include "tests/lib/unit.h"

#include "gateway/kafka/place.h"

static struct partition *make(struct partitions *ps)
{
    ck_assert_int_eq(partitions_add(ps, "topic", 0), 0);
    return partitions_find(ps, "topic", 0);
}

UNIT(what_retention_took_is_counted_once)
{
    cleanup(partitions_release) struct partitions ps = {0};
    struct partition *p = make(&ps);
    ck_assert_uint_eq(place_found(p, 100), 0); /* nothing was missing */
    place_missing(p, 100);
    ck_assert(p->is_unplaced);
    place_missing(p, RD_KAFKA_OFFSET_BEGINNING); /* the first that is left could not be asked for */
    ck_assert_uint_eq(place_found(p, 150), 50);
    ck_assert_uint_eq(place_found(p, 160), 0);
    place_missing(p, 200);
    ck_assert_uint_eq(place_found(p, 200), 0);
}

UNIT(what_was_never_read_or_begins_anew_is_not_gone)
{
    cleanup(partitions_release) struct partitions ps = {0};
    struct partition *p = make(&ps);
    place_missing(p, RD_KAFKA_OFFSET_INVALID);
    ck_assert(p->is_unplaced);
    ck_assert_uint_eq(place_found(p, 150), 0);
    place_missing(p, 200);
    ck_assert_uint_eq(place_found(p, 0), 0);
    ck_assert_uint_eq(place_found(p, 500), 0);
}
