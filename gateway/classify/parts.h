/*
 * The inside of the classify stage: what one request's view becomes on its way to the matcher.
 */
#ifndef GATEWAY_CLASSIFY_PARTS_H
#define GATEWAY_CLASSIFY_PARTS_H

#include "gateway/aggregate/aggregate.h"
#include "gateway/classify/classify.h"
#include "gateway/stats/stats.h"
#include "proto/base/buffer.h"
#include "proto/otlp/profiles.h"
#include "rules/match.h"
#include "rules/match_weigh.h"

#define CLASSIFY_UNKNOWN UINT32_MAX

/* A growing array that keeps its memory from request to request, charged to the stage's budget. */
struct column {
    void *p;
    size_t bytes;
};

/* The stack's outcome, as long as what it depended on is the same. */
struct stack_memo {
    uint32_t outcome; /* CLASSIFY_UNKNOWN; or CLASSIFY_EMPTY: no frames */
    uint32_t active, profile;
    uint32_t frames_at, n_frames; /* entries of frames counted one by one, in frame_entries */
};
#define CLASSIFY_EMPTY (UINT32_MAX - 1)

/* The samples of a profile that share an outcome, added up in every way a `value` may ask for. */
struct slot {
    uint32_t outcome;
    uint32_t frames_at, n_frames; /* n_frames > 0: a slot of these entries in place of the outcome's */
    int64_t n, events;
    int64_t samples, sum; /* of samples whose values are not negative */
    int64_t negative;     /* Σ of the others: gauges take them, sums do not go down */
    int64_t n_negative;
    int64_t time_base, n_untimed; /* Σ that the profile's factor makes nanoseconds; samples without such */
};

/* What is to be added to the aggregate at the request's end. */
struct pending {
    uint32_t resource, series;
    uint64_t time; /* of the profile, where the metric combines by it; else 0 */
    int64_t value;
};

/* What the type of a frame decides (frames.c): the fields still to look at, and the class if there are none.
 */
#define CLASSIFY_TYPES 64u
struct type_memo {
    uint32_t epoch, type, fields, class;
};

struct classify {
    const struct rules_program *program;
    struct rules_matcher *matcher;
    struct aggregate *aggregate;
    struct stats *stats;
    struct budget *budget;
    struct rules_asker asker;
    uint32_t n_attrs;
    bool wants_inlined;
    struct type_memo types[CLASSIFY_TYPES];
    uint32_t matcher_epoch, aggregate_epoch;
    uint64_t resets_seen, gave_up_seen;

    /* the request */
    const struct profiles *view;
    uint32_t profile, sample;      /* being looked at */
    uint32_t n_frames, *frames_at; /* NULL: every location is one frame */
    struct column string_id, attr_id, attr_key, attr_frame, attr_type, location_type, frames_at_column,
        frame_location, frame_class, location_class, profile_active, stacks, slots, frame_entries, pending,
        combined, value, value_stamp, touched, series_number, resource_number, scratch;
    uint32_t n_slots, n_frame_entries, n_pending, n_combined, n_touched, stamp, value_stamp_now;
    struct buffer text; /* of attributes, while made into strings */
    uint64_t unweighed;
    struct rules_register *registers;
};

/* Memory for n elements; NULL when out. What it held before is kept, new memory is not cleared. */
void *column_need(struct classify *c, struct column *column, size_t n, size_t size);
/* Appends one element; -ENOMEM when out. */
int column_add(struct classify *c, struct column *column, uint32_t *n, const void *element, size_t size);
void column_release(struct classify *c, struct column *column);

/* frames.c: strings, attributes and frames of the view. */
int frames_prepare(struct classify *c); /* classes of all frames; 0 or -ENOMEM */
uint32_t frames_string(struct classify *c, uint32_t string);
void frames_asker(struct classify *c, struct rules_asker *ret);

/* active.c: which sources each profile feeds. */
int active_prepare(struct classify *c);

/* sums.c: samples added up. */
void sums_sample(struct classify *c, struct slot *slot, const struct rules_time *time, uint32_t sample);
int sums_profile(struct classify *c, const struct rules_time *time); /* the profile's slots → pending */
int sums_apply(struct classify *c);                                  /* pending → aggregate */

#endif
