/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of the classify stage: what one request's view becomes on its way to the matcher.
 */
#ifndef GATEWAY_CLASSIFY_PARTS_H
#define GATEWAY_CLASSIFY_PARTS_H

#include "gateway/aggregate/aggregate.h"
#include "gateway/stats/stats.h"
#include "proto/base/buffer.h"
#include "proto/base/macros.h"
#include "proto/base/vec.h"
#include "proto/otlp/view/profiles.h"
#include "rules/match/match.h"
#include "rules/match/weigh.h"

#define CLASSIFY_UNKNOWN UINT32_MAX

/* An outcome of a stack, with its entries of frames counted one by one, in frame_entries. */
struct stack_outcome {
    uint32_t outcome, frames_at, n_frames;
};

/* What was found for a stack, as long as what it depended on is the same. Mostly that is one outcome. */
struct stack_memo {
    struct stack_outcome first;       /* its outcome may be CLASSIFY_UNKNOWN; or CLASSIFY_EMPTY: no frames */
    uint32_t more, n_more;            /* the others, in `found` */
    uint32_t active, profile, sample; /* it was found for */
    enum rules_level level;
};
#define CLASSIFY_EMPTY (UINT32_MAX - 1)

/* Work that is a product of two parts of a request: frames of stacks walked again, because what was found
 * depended on the sample or the profile, and entries of frames counted one by one, each time a sample adds to
 * them. So many are done for a byte of the body (ten bytes of sample on a stack of a hundred frames are ten),
 * and some for any request; what asks for more is refused. */
#define CLASSIFY_WORK_PER_BYTE 16u
#define CLASSIFY_WORK_FREE     (16u << 20)
#define CLASSIFY_WORK_TEXT     4u /* of a byte of a list as text, which may be a product, too: of references */

/* The last answer to a question for an attribute of a profile, a scope or a resource, so that a list is
 * looked through once for its owner and not for each of its stacks. */
struct attr_answer {
    uint32_t owner; /* + 1; 0: none yet */
    uint32_t text;  /* or RULES_NONE */
};
#define CLASSIFY_OWNERS 3u /* kinds of owners: RULE_SCOPE_PROFILE, _SCOPE, _RESOURCE */

/* The samples of a profile that share an outcome, added up in every way a `value` may ask for. */
struct slot {
    uint32_t outcome;
    uint32_t frames_at, n_frames; /* n_frames > 0: a slot of these entries in place of the outcome's */
    int64_t n, events;
    int64_t samples, sum; /* of samples whose values are not negative */
    int64_t negative;     /* Σ of the others: gauges take them, sums do not go down */
    int64_t n_negative;
    int64_t n_nothing; /* of a pprof's types: a sample has a value for each, 0 where it is not about one */
    int64_t time_base, n_untimed; /* Σ that the profile's factor makes nanoseconds; samples without such */
    uint32_t linked;              /* the last of its samples with a link, + 1; 0: there is none */
    uint8_t weighs;               /* what its sources have to weigh, CLASSIFY_TIMES | CLASSIFY_SUMS */
};

#define CLASSIFY_TIMES 1u /* a source of time: it cannot weigh samples without */
#define CLASSIFY_SUMS  2u /* of values added up: it cannot weigh negative ones */
#define CLASSIFY_KNOWN 4u /* an outcome's facts: these were asked for */

/* What sums want to know of a source. */
#define CLASSIFY_VALUES (RULE_VALUE_ONE + 1u)
struct source_facts {
    uint8_t weight; /* enum rule_value, of gauges + CLASSIFY_VALUES: they take negative values, too */
    uint8_t weighs; /* CLASSIFY_TIMES | CLASSIFY_SUMS */
    bool combined;  /* a gauge whose profiles are not simply added up */
    bool counted;   /* somebody wants to know how many samples there were (aggregate_count) */
};

/* Where the profile being added up has its sum for a series. */
struct place {
    uint32_t stamp, pending;
};

/* The profile that was described last: one after the other is mostly of one kind. */
struct profile_memo {
    bool valid;
    uint32_t type, unit, period_type, period_unit; /* strings of the view */
    int64_t period;
    uint32_t active;
    struct rules_time time;
};

/* What is to be added to the aggregate at the request's end. */
struct pending {
    uint32_t resource, series;
    uint32_t profile; /* the one it is of */
    bool counted;
    int64_t value;
    int64_t samples; /* where they are counted */
};

/* A sample with a trace, to be offered to the aggregate as an example of what the series counts. */
struct example {
    uint32_t profile, sample, series;
    int64_t value; /* the sample's own */
};

/* Of one request; there are more on the way, and the aggregate keeps one a series. */
#define CLASSIFY_EXAMPLES_MAX 1024u

/* What an attribute that is a frame type says of the frames of locations that have it. */
struct frame_kind {
    uint32_t type;         /* RULES_NONE: it is no frame type */
    uint32_t fields;       /* what rules look at besides */
    uint32_t class;        /* of all of them, where the type alone decides it; or CLASSIFY_UNKNOWN */
    uint32_t mapping_mask; /* all ones if the mapping matters, else 0 */
    bool by_function;      /* the function matters */
    bool by_name;          /* its name, and nothing else */
};

/* The class of that frame of a function (or, where none matters, of a mapping) which was looked at last. */
struct class_memo {
    uint32_t type;    /* CLASSIFY_NO_TYPE: none yet */
    uint32_t mapping; /* 0 where it does not matter */
    uint32_t class;
};
#define CLASSIFY_NO_TYPE (UINT32_MAX - 1) /* no string's number, and not RULES_NONE */

/* The tables of a request, each by the number of what it is about. They keep their memory from request to
 * request (giving pages back costs more than the request), charged to the stage; what they hold is void at
 * the next begin. A number + 1 is 0 where nothing was asked yet. */
#define CLASSIFY_TABLES(X)                                                         \
    X(uint32_t, string_id)               /* [string] the matcher's number + 1 */   \
    X(uint32_t, attr_id)                 /* [attribute] its text's + ATTR_ID */    \
    X(uint32_t, attr_key)                /* [attribute] key of rules + 1 */        \
    X(uint64_t, attr_says)               /* [attribute] rules_says of it, or 0 */  \
    X(uint8_t, attr_frame)               /* [attribute] enum frame_key */          \
    X(struct frame_kind, attr_kind)      /* [attribute] */                         \
    X(uint32_t, location_type)           /* [location] its frame type's text */    \
    X(uint32_t, location_class)          /* [location] or RULES_MANY */            \
    X(uint32_t, location_frames)         /* [location] first frame, and the end */ \
    X(uint32_t, frame_location)          /* [frame] */                             \
    X(uint32_t, frame_class)             /* [frame] */                             \
    X(struct class_memo, function_class) /* [function] */                          \
    X(uint32_t, asked_functions)         /* whose names are looked up */           \
    X(uint32_t, asked_frames)            /* that wait for them */                  \
    X(struct class_memo, mapping_class)  /* [mapping] */                           \
    X(struct attr_answer, build_id)      /* [mapping] */                           \
    X(uint32_t, profile_active)          /* [profile] the sources it feeds */      \
    X(uint8_t, has_siblings)             /* [profile] */                           \
    X(uint32_t, order)                   /* profiles, siblings together */         \
    X(struct stack_memo, stacks)         /* [stack] */                             \
    X(struct stack_outcome, found)       /* of stacks: what is not the first */    \
    X(struct slot, slots)                /* of the profile being looked at */      \
    X(struct rules_entry, frame_entries) /* frames counted one by one */           \
    X(struct pending, pending)           /* sums for the aggregate */              \
    X(struct pending, combined)          /* those that are not simply added up */  \
    X(struct example, examples)                                                    \
    X(uint32_t, resource_number) /* [resource] the aggregate's + 1 */

/* What a sample says of some keys, by those of its attributes that have them: samples are many, such lists a
 * few. */
#define CLASSIFY_SAID 256u
struct said {
    uint64_t list; /* hashed, with the keys and which request it is */
    uint32_t says; /* rules_matcher_sample */
};

/* Strings of the view that were numbered by where they are. */
#define CLASSIFY_LONG       256u /* bytes; shorter ones are hashed */
#define CLASSIFY_LONG_TEXTS 64u
struct long_text {
    const uint8_t *p;
    size_t n;
    uint32_t id;
};

/* What one request has. */
struct classify_request {
    const struct profiles *view;
    uint32_t profile, sample;      /* being looked at */
    uint32_t attrs_of;             /* the sample + 1 whose attributes were read */
    uint64_t said;                 /* hashed into lists of this request */
    uint32_t n_frames, *frames_at; /* [location]; NULL: every location is one frame */
    struct rules_stack stack;      /* being walked; its classes are the request's */
    struct long_text long_texts[CLASSIFY_LONG_TEXTS];
    struct profile_memo last_active, last_time;
    uint64_t work, work_max; /* CLASSIFY_WORK_… */
    uint64_t unweighed;
#define X(type, name) VEC(type) name;
    CLASSIFY_TABLES(X)
#undef X
};

/* What stays: the program asked through a matcher, and where its answers go. */
struct classify {
    const struct rules_program *program;
    struct rules_matcher *matcher;
    struct aggregate *aggregate;
    struct stats *stats;
    struct budget *budget, own; /* budget: own, whose parent is the worker's */
    size_t peak;                /* of `own`, at the end of the last request */
    struct rules_asker asker;
    struct rules_register *registers;
    struct source_facts *sources; /* [source] */
    uint32_t n_attrs;
    bool wants_inlined;
    uint64_t resets_seen, gave_up_seen;

    /* By the matcher's and the aggregate's numbers, as long as these last. */
    uint32_t matcher_epoch, aggregate_epoch;
    VEC(uint32_t) series_number; /* [series] the aggregate's + 1 */
    VEC(struct place) places;    /* [series] */
    uint32_t stamp, place_stamp; /* the profile's: on outcomes, and on places */
    VEC(struct aggregate_label) labels;

    /* Attributes that rules ask for. */
    struct attr_answer *answers;          /* [owner kind × n_attrs + key], of this request */
    uint32_t *sample_attrs;               /* [key] text of the sample request.attrs_of, or RULES_NONE */
    uint32_t *sample_keys, n_sample_keys; /* those that are not RULES_NONE */
    struct said said[CLASSIFY_SAID];
    uint64_t requests;  /* of which samples were asked, so far */
    uint64_t said_key;  /* for hashing, odd */
    struct buffer text; /* of attributes, while made into strings */

    struct classify_request request;
};

/* Memory for n elements of a table, and one behind them, so that there is some when n is 0. What the table
 * held is kept, new memory is not cleared. 0 or -ENOMEM. */
#define classify_room(table, n) vec_reserve((table), (uint64_t)(n) + 1)

/* classify.c: begins anew with a view that was counted before, up to the classes of its frames; for keep.c. 0
 * or -ENOMEM. */
int classify_resume(struct classify *c, const struct profiles *view);

/* frames.c: strings, attributes and frames of the view. */
int frames_prepare(struct classify *c); /* classes of all frames; 0 or -ENOMEM */
void frames_asker(struct classify *c, struct rules_asker *ret);

/* active.c: which sources each profile feeds. */
int active_prepare(struct classify *c);

/* Whether the memo is of a profile of this kind; if not, it becomes one, for the caller to fill in. */
bool profile_is_like(const struct profiles *v, uint32_t profile, struct profile_memo *memo);
struct rules_profile profile_describe(const struct profiles *v, uint32_t profile);

/* sums.c: samples added up. */
int sums_init(struct classify *c);
uint8_t sums_weighs(const struct classify *c, const struct rules_entry *entries,
                    uint32_t n);                                     /* CLASSIFY_TIMES | … */
int sums_profile(struct classify *c, const struct rules_time *time); /* the profile's slots → pending */
int sums_apply(struct classify *c);                                  /* pending → aggregate */

static inline int64_t add_clamped(int64_t a, int64_t b)
{
    int64_t sum;
    if (unlikely(__builtin_add_overflow(a, b, &sum)))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

/* Adds a sample to a slot. What cannot be weighed of it, CLASSIFY_TIMES | CLASSIFY_SUMS. */
static inline uint8_t sums_sample(const struct classify *c, struct slot *slot, const struct rules_time *time,
                                  uint32_t sample)
{
    const struct profiles *v = c->request.view;
    uint32_t n_values = v->sample.n_values[sample], n_times = v->sample.n_timestamps[sample];
    int64_t sum = v->sample.value_sum[sample], events = n_times ? n_times : 1, told = n_values ? sum : events;
    bool is_nothing =
        sum == 0 && n_values == 1 && n_times == 0 && c->request.has_siblings.p[c->request.profile];
    slot->n++;
    slot->n_nothing += is_nothing;
    slot->events += is_nothing ? 0 : events;
    if (likely(told >= 0)) {
        bool asks = time->how == RULES_TIME_VALUES && !is_nothing;
        int64_t samples = asks ? rules_time_samples(time, sum, events) : told;
        slot->samples = add_clamped(slot->samples, samples);
        slot->sum = add_clamped(slot->sum, sum);
    } else {
        slot->negative = add_clamped(slot->negative, told);
        slot->n_negative++;
    }
    uint8_t odd = told < 0 ? CLASSIFY_SUMS : 0;
    int64_t base = time->how == RULES_TIME_SAMPLES ? told : sum;
    bool timed = time->how == RULES_TIME_SAMPLES || (time->how == RULES_TIME_VALUES && n_values > 0);
    if (likely(timed && base >= 0 && base <= time->limit - slot->time_base))
        slot->time_base += base;
    else {
        slot->n_untimed++;
        odd |= CLASSIFY_TIMES;
    }
    return odd;
}

#endif
