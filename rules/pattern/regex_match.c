/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PCRE2's own match limit counts anew at each byte a match may begin at, and knows nothing of the bytes one
 * item runs over: `\w+foo!` went 8 million steps through a name of 4 KB, `\w+\sfoo` as many bytes, and
 * neither met the limit. So the program calls back before each of its items (PCRE2_AUTO_CALLOUT), and what is
 * counted there is the whole match's: an item is a step, and the way to it one for each 64 bytes, which is
 * about what they take. A match takes 1.3 to 2 times as long for it.
 */
#include "rules/pattern/regex_match.h"

#include <errno.h>
#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "proto/base/macros.h"

struct regex {
    pcre2_code *code;
    uint32_t n_groups;
};

int regex_new(struct regex **ret, struct bytes source, bool nocase, struct error *e)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    struct regex *r = calloc(1, sizeof *r);
    if (!context || !r) {
        pcre2_compile_context_free(context);
        free(r);
        return error_set(e, -ENOMEM, "out of memory");
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    int code;
    PCRE2_SIZE at;
    r->code = pcre2_compile(source.p, source.n,
                            PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_UTF | PCRE2_NEVER_UCP |
                                PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT | (nocase ? PCRE2_CASELESS : 0u),
                            &code, &at, context);
    pcre2_compile_context_free(context);
    if (!r->code) {
        PCRE2_UCHAR words[128];
        pcre2_get_error_message(code, words, sizeof words);
        free(r);
        return error_set(e, -EINVAL, "regex /%.*s/: %s at byte %zu", BYTES_FMT(source), (const char *)words,
                         at);
    }
    pcre2_pattern_info(r->code, PCRE2_INFO_CAPTURECOUNT, &r->n_groups);
    *ret = r;
    return 0;
}

struct regex *regex_free(struct regex *r)
{
    if (r)
        pcre2_code_free(r->code);
    free(r);
    return NULL;
}

int regex_scratch_init(struct regex_scratch *s)
{
    *s = (struct regex_scratch){0};
    s->data = pcre2_match_data_create(2, NULL); /* the whole match and group 1: nothing else is ever asked */
    s->context = pcre2_match_context_create(NULL);
    if (!s->data || !s->context) {
        regex_scratch_release(s);
        return -ENOMEM;
    }
    pcre2_set_match_limit(s->context, REGEX_STEPS_MAX);
    return 0;
}

void regex_scratch_release(struct regex_scratch *s)
{
    pcre2_match_data_free(s->data);
    pcre2_match_context_free(s->context);
    s->data = s->context = NULL;
}

#define STEP_BYTES 64u

struct steps {
    size_t items, bytes, at;
};

static int count_step(pcre2_callout_block *b, void *user)
{
    struct steps *s = user;
    s->bytes += b->current_position > s->at ? b->current_position - s->at : s->at - b->current_position;
    s->at = b->current_position;
    return ++s->items + s->bytes / STEP_BYTES > REGEX_STEPS_MAX ? PCRE2_ERROR_MATCHLIMIT : 0;
}

static bool run(const struct regex *r, struct regex_scratch *s, struct bytes text)
{
    static const uint8_t nothing[1] = {0};
    size_t n = min_of(text.n, (size_t)REGEX_TEXT_MAX);
    struct steps steps = {0};
    pcre2_set_callout(s->context, count_step, &steps);
    int rc = pcre2_match(r->code, n ? text.p : nothing, n, 0, 0, s->data, s->context);
    if (rc == PCRE2_ERROR_MATCHLIMIT || rc == PCRE2_ERROR_DEPTHLIMIT || rc == PCRE2_ERROR_HEAPLIMIT)
        s->gave_up++;
    return rc >= 0;
}

bool regex_search(const struct regex *r, struct regex_scratch *s, struct bytes text)
{
    return run(r, s, text);
}

bool regex_capture(const struct regex *r, struct regex_scratch *s, struct bytes text, struct bytes *ret)
{
    if (!run(r, s, text))
        return false;
    const PCRE2_SIZE *at = pcre2_get_ovector_pointer(s->data);
    const PCRE2_SIZE *group = r->n_groups > 0 ? at + 2 : at;
    if (group[0] == PCRE2_UNSET)
        return false;
    *ret = bytes_of(text.p + group[0], group[1] > group[0] ? group[1] - group[0] : 0);
    return true;
}
