/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sender/attach/sampler.h"

struct seen {
    int stacks, execs;
    uint64_t last_address;
    struct sample_frame last;
    const uint8_t *context;
    bool has_environment;
    char path[64];
};

static void on_stack(void *user, const struct sample_head *head, const uint64_t *body)
{
    struct seen *s = user;
    s->stacks++;
    s->last = record_frame(head, body, head->n_kernel + head->n_user - 1);
    s->last_address = s->last.where;
    s->context = record_context(head, body);
}

static void on_exec(void *user, const struct sample_head *head, const char *path)
{
    struct seen *s = user;
    s->execs++;
    snprintf(s->path, sizeof s->path, "%s", path);
}

struct stack_record {
    struct sample_head head;
    uint64_t kernel;
    struct sample_frame user;
};

struct plain_record {
    struct sample_head head;
    uint64_t address[3];
};

UNIT(a_stack_is_handed_on)
{
    struct seen seen = {0};
    struct sampler_handler h = {on_stack, on_exec, &seen};
    struct stack_record r = {{.kind = SAMPLE_STACK, .n_kernel = 1, .n_user = 1, .comm = "x"},
                             1,
                             {.kind = SAMPLE_FRAME_CODE, .extra = 7, .file = 8, .where = 3}};
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), 0);
    ck_assert_int_eq(seen.stacks, 1);
    ck_assert_uint_eq(seen.last_address, 3);
    ck_assert(seen.last.kind == SAMPLE_FRAME_CODE && seen.last.extra == 7 && seen.last.file == 8);
    struct sample_frame leaf = record_frame(&r.head, &r.kernel, 0);
    ck_assert(leaf.kind == SAMPLE_FRAME_KERNEL && leaf.where == 1);
    r.user.kind = SAMPLE_FRAME_WORD;
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), 0);
    ck_assert_uint_eq(seen.last.kind, SAMPLE_FRAME_WORD);
}

UNIT(a_plain_stack_is_words)
{
    struct seen seen = {0};
    struct sampler_handler h = {on_stack, on_exec, &seen};
    struct plain_record r = {
        {.kind = SAMPLE_STACK, .n_kernel = 1, .n_user = 2, .flags = SAMPLE_PLAIN, .comm = "x"}, {1, 2, 3}};
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), 0);
    ck_assert(seen.last.kind == SAMPLE_FRAME_CODE && seen.last.where == 3);
    r.head.flags = 0;
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), -EBADMSG); /* too short for frames */
}

UNIT(frames_of_no_kind_are_refused)
{
    struct seen seen = {0};
    struct sampler_handler h = {on_stack, on_exec, &seen};
    struct stack_record r = {{.kind = SAMPLE_STACK, .n_kernel = 1, .n_user = 1, .comm = "x"}, 1, {0}};
    r.user.kind = SAMPLE_FRAME_KERNEL; /* those come first, as words */
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), -EBADMSG);
    r.user.kind = SAMPLE_FRAME_KINDS;
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), -EBADMSG);
    r.user.kind = SAMPLE_FRAME_WORD;
    r.user.runtime = RUNTIME_TAGS;
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), -EBADMSG);
    ck_assert_int_eq(seen.stacks, 0);
}

UNIT(a_context_comes_behind_the_frames)
{
    struct seen seen = {0};
    struct sampler_handler h = {on_stack, on_exec, &seen};
    struct {
        struct sample_head head;
        struct sample_frame frame;
        uint8_t context[CONTEXT_BYTES_MAX + 8];
    } r = {{.kind = SAMPLE_STACK, .n_user = 1, .comm = "x"}, {.kind = SAMPLE_FRAME_CODE, .where = 2}, {0}};
    size_t n = sizeof r.head + sizeof r.frame;
    for (uint16_t i = 0; i < sizeof r.context; i++) {
        bool is_one = i == 0 || (i >= CONTEXT_HEAD_BYTES && i <= CONTEXT_BYTES_MAX);
        r.head.n_context = i;
        ck_assert_int_eq(sampler_record(&h, &r, n + i), is_one ? 0 : -EBADMSG);
        ck_assert_int_eq(sampler_record(&h, &r, n + i + 1), -EBADMSG);
    }
    ck_assert_uint_eq(seen.last_address, 2);
    ck_assert_ptr_eq(seen.context, r.context);
}

UNIT(an_exec_is_handed_on)
{
    struct seen seen = {0};
    struct sampler_handler h = {on_stack, on_exec, &seen};
    struct sample_exec r = {.head = {.kind = SAMPLE_EXEC, .comm = "x"}, .path = "/bin/true"};
    const size_t before = offsetof(struct sample_exec, path);
    ck_assert_int_eq(sampler_record(&h, &r, before + 10), 0);
    ck_assert_str_eq(seen.path, "/bin/true");
    ck_assert_int_eq(sampler_record(&h, &r, before + 9), -EBADMSG); /* its NUL is missing */
    ck_assert_int_eq(sampler_record(&h, &r, before), -EBADMSG);
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r.head), -EBADMSG);
    memset(r.name, 'x', sizeof r.name);
    ck_assert_int_eq(sampler_record(&h, &r, before + 10), -EBADMSG); /* likewise */
    ck_assert_int_eq(seen.execs, 1);
}

UNIT(a_program_begun_by_a_link_is_called_by_its_own_name)
{
    struct seen seen = {0};
    struct sampler_handler h = {on_stack, on_exec, &seen};
    struct sample_exec r = {.head = {.kind = SAMPLE_EXEC, .comm = "x"}, .name = "dash", .path = "/bin/dash"};
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), 0);
    ck_assert_str_eq(seen.path, "/bin/dash");
    strcpy(r.path, "/bin/sh");
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), 0);
    ck_assert_str_eq(seen.path, "dash");
    strcpy(r.path, "dash"); /* execve is told paths without a slash, too */
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), 0);
    ck_assert_str_eq(seen.path, "dash");
}

static void on_process(void *user, const struct sample_process *process, struct bytes environment)
{
    struct seen *s = user;
    s->last_address = process->user;
    s->has_environment = environment.p != NULL;
    snprintf(s->path, sizeof s->path, "%.*s", (int)environment.n, (const char *)environment.p);
}

UNIT(a_process_is_handed_on_with_its_environment)
{
    struct seen seen = {0};
    struct sampler_handler h = {.process = on_process, .user = &seen}, none = {.user = &seen};
    struct {
        struct sample_process process;
        char behind;
    } r = {.process = {.head = {.kind = SAMPLE_PROCESS, .detail = 1}, .user = 7, .environ = "A=1"}};
    size_t fixed = offsetof(struct sample_process, environ);
    ck_assert_int_eq(sampler_record(&h, &r, fixed + 3), 0);
    ck_assert_uint_eq(seen.last_address, 7);
    ck_assert_str_eq(seen.path, "A=1");
    ck_assert_int_eq(sampler_record(&h, &r, fixed), 0);
    ck_assert_str_eq(seen.path, "");
    ck_assert(seen.has_environment);
    r.process.head.detail = 0;
    ck_assert_int_eq(sampler_record(&h, &r, fixed), 0);
    ck_assert(!seen.has_environment);
    ck_assert_int_eq(sampler_record(&none, &r, fixed + SAMPLE_ENVIRON_MAX), 0);
    ck_assert_int_eq(sampler_record(&h, &r, fixed + SAMPLE_ENVIRON_MAX + 1), -EBADMSG);
    ck_assert_int_eq(sampler_record(&h, &r, sizeof(struct sample_head)), -EBADMSG);
}

static void on_notice(void *user, const struct sample_head *head)
{
    struct seen *s = user;
    s->execs++;
    s->last_address = head->value;
}

UNIT(a_notice_is_handed_on)
{
    struct seen seen = {0};
    struct sampler_handler h = {.notice = on_notice, .user = &seen};
    struct sample_head r = {.kind = SAMPLE_VALUE, .value = 5, .ticket = 7};
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), 0);
    ck_assert_uint_eq(seen.last_address, 5);
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r + 8), -EBADMSG);
    r.source = SAMPLE_SOURCES;
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), -EBADMSG);
    r.source = 0;
    r.kind = SAMPLE_EXIT;
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), 0);
    ck_assert_int_eq(seen.execs, 2);
    h.notice = NULL;
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), 0); /* nobody asks */
}

static void on_want(void *user, const struct sample_want *want)
{
    struct seen *s = user;
    s->execs++;
    s->last_address = want->start;
}

UNIT(a_wanted_file_is_handed_on)
{
    struct seen seen = {0};
    struct sampler_asked asked = {.want = on_want, .user = &seen};
    struct sample_want w = {.head = {.kind = SAMPLE_WANT}, .start = 0x1000, .end = 0x2000};
    ck_assert_int_eq(sampler_want(&asked, 8, &w, sizeof w), 0);
    ck_assert_uint_eq(seen.last_address, 0x1000);
    ck_assert_int_eq(sampler_want(&asked, 8, &w, sizeof w - 1), -EBADMSG);
    w.head.detail = RUNTIME_TAGS; /* of nobody */
    ck_assert_int_eq(sampler_want(&asked, 8, &w, sizeof w), -EBADMSG);
    w.head.detail = 0;
    w.end = 0xfff;
    ck_assert_int_eq(sampler_want(&asked, 8, &w, sizeof w), -EBADMSG);
    w.end = 0x2000;
    memset(w.path, 'x', sizeof w.path); /* no NUL */
    ck_assert_int_eq(sampler_want(&asked, 8, &w, sizeof w), -EBADMSG);
    ck_assert_int_eq(seen.execs, 1);
}

static void on_rest(void *user, const struct sample_head *head, const uint64_t *body)
{
    struct seen *s = user;
    s->stacks++;
    s->last_address = record_frame(head, body, head->n_kernel + head->n_user - 1).where;
}

UNIT(a_walk_that_is_to_go_on_is_handed_on)
{
    struct seen seen = {0};
    struct sampler_asked asked = {.rest = on_rest, .user = &seen};
    struct {
        struct sample_head head;
        struct sample_frame frame[2];
    } r = {{.kind = SAMPLE_REST, .n_user = 2, .user_end = UNWIND_END_MISSING, .comm = "x"},
           {{.kind = SAMPLE_FRAME_CODE, .where = 1}, {.kind = SAMPLE_FRAME_CODE, .where = 2}}};
    ck_assert_int_eq(sampler_want(&asked, 8, &r, sizeof r), 0);
    ck_assert_uint_eq(seen.last_address, 2);
    ck_assert_int_eq(sampler_want(&asked, 8, &r, sizeof r - 8), -EBADMSG);
    r.head.rest = 8; /* of memory that is not there */
    ck_assert_int_eq(sampler_want(&asked, 8, &r, sizeof r), -EBADMSG);
    r.head.rest = 0;
    r.head.n_user = 0; /* a walk that has not begun does not go on */
    ck_assert_int_eq(sampler_want(&asked, 8, &r, sizeof r.head), -EBADMSG);
    ck_assert_int_eq(seen.stacks, 1);
}

UNIT(a_record_that_contradicts_itself_is_refused)
{
    struct seen seen = {0};
    struct sampler_handler h = {on_stack, on_exec, &seen};
    struct plain_record r = {
        {.kind = SAMPLE_STACK, .n_kernel = 1, .n_user = 3, .flags = SAMPLE_PLAIN, .comm = "x"}, {1, 2, 3}};
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), -EBADMSG); /* says four addresses, has three */
    r.head.n_user = SAMPLE_USER_MAX + 1;
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), -EBADMSG);
    r.head.n_user = 2;
    r.head.user_end = UNWIND_ENDS;
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), -EBADMSG);
    r.head.user_end = 0;
    r.head.source = SAMPLE_SOURCES;
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), -EBADMSG);
    r.head.source = 0;
    r.head.kind = SAMPLE_EXIT + 1;
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), -EBADMSG);
    r.head.kind = SAMPLE_STACK;
    r.head.n_user = 2;
    memset(r.head.comm, 'x', sizeof r.head.comm); /* no NUL */
    ck_assert_int_eq(sampler_record(&h, &r, sizeof r), -EBADMSG);
    ck_assert_int_eq(sampler_record(&h, &r, 3), -EBADMSG);
    ck_assert_int_eq(seen.stacks, 0);
}
