#include "tests/lib/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sender/attach/sampler.h"

struct seen {
    int stacks, execs;
    uint64_t last_address;
    char path[64];
};

static void on_stack(void *user, const struct sample_head *head, const uint64_t *address)
{
    struct seen *s = user;
    s->stacks++;
    s->last_address = address[head->n_kernel + head->n_user - 1];
}

static void on_exec(void *user, const struct sample_head *head, const char *path)
{
    struct seen *s = user;
    s->execs++;
    snprintf(s->path, sizeof s->path, "%s", path);
}

struct stack_record {
    struct sample_head head;
    uint64_t address[3];
};

UNIT(a_stack_is_handed_on)
{
    struct seen seen = {0};
    struct sampler_handler h = {on_stack, on_exec, &seen};
    struct stack_record r = {{.kind = SAMPLE_STACK, .n_kernel = 1, .n_user = 2, .comm = "x"}, {1, 2, 3}};
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), 0);
    ck_assert_int_eq(seen.stacks, 1);
    ck_assert_uint_eq(seen.last_address, 3);
}

UNIT(an_exec_is_handed_on)
{
    struct seen seen = {0};
    struct sampler_handler h = {on_stack, on_exec, &seen};
    struct sample_exec r = {.head = {.kind = SAMPLE_EXEC, .comm = "x"}, .path = "/bin/true"};
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r.head + 10), 0);
    ck_assert_str_eq(seen.path, "/bin/true");
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r.head + 9), -EBADMSG); /* its NUL is missing */
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r.head), -EBADMSG);
    ck_assert_int_eq(seen.execs, 1);
}

UNIT(a_record_that_contradicts_itself_is_refused)
{
    struct seen seen = {0};
    struct sampler_handler h = {on_stack, on_exec, &seen};
    struct stack_record r = {{.kind = SAMPLE_STACK, .n_kernel = 1, .n_user = 3, .comm = "x"}, {1, 2, 3}};
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), -EBADMSG); /* says four addresses, has three */
    r.head.n_user = SAMPLE_USER_MAX + 1;
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), -EBADMSG);
    r.head.kind = 7;
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), -EBADMSG);
    r.head.kind = SAMPLE_STACK;
    r.head.n_user = 2;
    memset(r.head.comm, 'x', sizeof r.head.comm); /* no NUL */
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), -EBADMSG);
    ck_assert_int_eq(sampler_record(&h, &r, 3), -EBADMSG);
    ck_assert_int_eq(seen.stacks, 0);
}
