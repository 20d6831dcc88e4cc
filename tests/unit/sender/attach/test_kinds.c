/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>

#include "sender/attach/kinds.h"

static int event(struct kinds *k, const char *text)
{
    struct error e = {0};
    int r = kinds_add_event(k, text, &e);
    ck_assert(r == 0 || *e.text);
    return r;
}

UNIT(the_clock_is_a_kind)
{
    struct kinds k;
    kinds_init(&k, 20);
    ck_assert_int_eq(k.at[SAMPLE_FROM_CLOCK].how, KIND_CLOCK);
    ck_assert_uint_eq(k.at[SAMPLE_FROM_CLOCK].period, 50000000);
    ck_assert_str_eq(k.at[SAMPLE_FROM_CLOCK].type, "samples");
    ck_assert_int_eq(k.at[SAMPLE_FROM_WAIT].how, KIND_OFF);
    kinds_add_wait(&k, 0.5);
    ck_assert_str_eq(k.at[SAMPLE_FROM_WAIT].type, "off_cpu");
    ck_assert(k.at[SAMPLE_FROM_WAIT].share == 0.5);
}

UNIT(waits_by_their_length_have_the_clocks_period)
{
    struct kinds k;
    kinds_init(&k, 20);
    kinds_add_wait(&k, 0);
    const struct kind *wait = &k.at[SAMPLE_FROM_WAIT];
    ck_assert(wait->share == 1); /* nothing is left to divide by */
    ck_assert_uint_eq(wait->period, 50000000);
    ck_assert_str_eq(wait->period_type, "off_cpu");
    ck_assert_str_eq(wait->period_unit, "nanoseconds");
    kinds_add_wait(&k, 0.25);
    ck_assert(wait->share == 0.25 && wait->period == 0 && !*wait->period_type);
}

UNIT(events_by_name_number_and_frequency)
{
    struct kinds k;
    kinds_init(&k, 19);
    ck_assert_int_eq(event(&k, "page-faults"), 0);
    ck_assert_int_eq(event(&k, "cache-misses/1000"), 0);
    ck_assert_int_eq(event(&k, "cycles@97"), 0);
    ck_assert_int_eq(event(&k, "r01C2/5"), 0);
    const struct kind *kind = &k.at[SAMPLE_FROM_OTHERS];
    ck_assert_uint_eq(kind[0].event_type, PERF_TYPE_SOFTWARE);
    ck_assert_uint_eq(kind[0].event_config, PERF_COUNT_SW_PAGE_FAULTS);
    ck_assert_uint_eq(kind[1].event_config, PERF_COUNT_HW_CACHE_MISSES);
    ck_assert_uint_eq(kind[1].rate, 1000);
    ck_assert(!kind[1].is_frequency && kind[2].is_frequency);
    ck_assert_str_eq(kind[0].type, "page_faults"); /* backends refuse a type with a hyphen */
    ck_assert_str_eq(kind[0].period_type, "page_faults");
    ck_assert_str_eq(kind[1].type, "cache_misses");
    ck_assert_uint_eq(kind[2].period, 0);
    ck_assert_uint_eq(kind[3].event_type, PERF_TYPE_RAW);
    ck_assert_uint_eq(kind[3].event_config, 0x1c2);
    ck_assert_uint_eq(k.n_others, 4);
}

UNIT(what_is_no_event_is_refused)
{
    struct kinds k;
    kinds_init(&k, 19);
    static const char *const bad[] = {
        "",     "page", "page-faults/", "page-faults/0", "cycles@100000",     "cycles@1x",
        "rxyz", "r",    "r-1",          "page-faults:2", "r12345678123456781"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(event(&k, bad[i]) == -EINVAL, "%s", bad[i]);
    ck_assert_uint_eq(k.n_others, 0);
    for (uint32_t i = 0; i < SAMPLE_OTHERS_MAX; i++)
        ck_assert_int_eq(event(&k, "cycles"), 0);
    ck_assert_int_eq(event(&k, "cycles"), -EINVAL);
}

UNIT(a_probe_is_a_file_and_a_symbol)
{
    struct kinds k;
    struct error e;
    char good[] = "/a:b/lib.so:fn", bad[] = "/lib.so:", none[] = ":fn";
    kinds_init(&k, 19);
    ck_assert_int_eq(kinds_add_probe(&k, good, &e), 0);
    ck_assert_str_eq(k.at[SAMPLE_FROM_OTHERS].file, "/a:b/lib.so");
    ck_assert_str_eq(k.at[SAMPLE_FROM_OTHERS].symbol, "fn");
    ck_assert_int_eq(kinds_add_probe(&k, bad, &e), -EINVAL);
    ck_assert_int_eq(kinds_add_probe(&k, none, &e), -EINVAL);
    ck_assert_int_eq(kinds_add_alloc(&k, "libc", 4096, &e), 0);
    ck_assert_uint_eq(k.at[SAMPLE_FROM_OTHERS + 1].period, 4096);
    ck_assert_uint_eq(k.n_others, 2);
}
