#include "tests/lib/unit.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SKIPPED 77 /* exit code of a case that could not run here, as ctest and automake use it */

static struct unit_case *first, **last = &first;

void unit_register(struct unit_case *c)
{
    *last = c;
    last = &c->next;
}

void unit_skip(const char *why)
{
    printf("skip: %s\n", why);
    fflush(stdout);
    _exit(SKIPPED);
}

unsigned char *unit_data(const char *name, size_t *ret_len)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/data/%s", PG_SOURCE_DIR, name);
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "cannot open %s", path);
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    unsigned char *data = calloc(1, (size_t)n + 64);
    ck_assert_ptr_nonnull(data);
    ck_assert_uint_eq(fread(data, 1, (size_t)n, f), (size_t)n);
    fclose(f);
    *ret_len = (size_t)n;
    return data;
}

/* A case is a suite of its own, so that its result can be told from the others' by count. */
static const char *run_case(struct unit_case *c)
{
    Suite *suite = suite_create(c->test.name);
    TCase *tcase = tcase_create(c->test.name);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, &c->test);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_SILENT);

    const char *result = "pass";
    TestResult **failed = srunner_failures(runner);
    if (srunner_ntests_failed(runner) > 0) {
        const char *message = tr_msg(failed[0]);
        result = strstr(message, "return value 77") ? "skip" : "fail";
        printf("%s: %s:%d: %s\n", result, tr_lfile(failed[0]), tr_lno(failed[0]), message);
    }
    free(failed);
    srunner_free(runner);
    return result;
}

/* ---- without memory ---- */

#ifdef PG_OOM
/* Exit codes that cannot be mistaken for a case's own. */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);
const char *__asan_default_options(void)
{
    return "exitcode=99:allocator_may_return_null=1";
}
const char *__ubsan_default_options(void)
{
    return "exitcode=99:print_stacktrace=1";
}

#include <signal.h>
#include <sanitizer/lsan_interface.h>
#include <sys/wait.h>

#include "tests/lib/oom.h"

#define CASE_SECONDS 20 /* of one run with a failure; longer is a hang */
#define ASAN_CODE    99
#define LEAK_CODE    98

/* A hang, a crash or a sanitizer's report are wrong answers to a failed allocation; that the case's
 * expectations are not met is not. */
static const char *run_without_memory(struct unit_case *c, struct oom_places *record, uint64_t place,
                                      bool for_good, int *ret_status)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0); /* check ends a hanging case by a signal to the whole group */
        if (!freopen("/dev/null", "w", stdout))
            _exit(1);
        Suite *suite = suite_create(c->test.name);
        TCase *tcase = tcase_create(c->test.name);
        tcase_set_timeout(tcase, 0);
        tcase_add_test(tcase, &c->test);
        suite_add_tcase(suite, tcase);
        SRunner *runner = srunner_create(suite);
        srunner_set_fork_status(runner, CK_NOFORK);
        signal(SIGALRM, SIG_DFL);
        alarm(CASE_SECONDS);
        if (record)
            oom_record(record);
        else
            oom_fail(place, for_good);
        srunner_run_all(runner, CK_SILENT);
        oom_stop();
        /* A case that was cut short by an expectation leaves its things behind; one that ran through must
         * not. */
        if (srunner_ntests_failed(runner) == 0 && __lsan_do_recoverable_leak_check())
            _exit(LEAK_CODE);
        _exit(0);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0)
        ;
    *ret_status = status;
    if (WIFSIGNALED(status))
        return WTERMSIG(status) == SIGALRM ? "hangs" : strsignal(WTERMSIG(status));
    switch (WEXITSTATUS(status)) {
    case ASAN_CODE: return "is reported by a sanitizer";
    case LEAK_CODE: return "leaks";
    default: return NULL;
    }
}

/* Each place where the case takes memory, if no case before it had it, fails once, and then for good. */
static int case_without_memory(struct unit_case *c, struct oom_places *all, struct oom_places *mine,
                               FILE *log)
{
    int wrong = 0, status;
    memset(mine, 0, sizeof *mine);
    if (run_without_memory(c, mine, 0, false, &status))
        return 0; /* its ordinary run tells of that */
    for (uint32_t i = 0; i < mine->n; i++) {
        uint64_t place = mine->place[i];
        if (oom_places_has(all, place))
            continue;
        oom_places_add(all, place);
        for (int for_good = 0; for_good < 2; for_good++) {
            const char *what = run_without_memory(c, NULL, place, for_good, &status);
            if (!what)
                continue;
            wrong++;
            fprintf(log, "%s: out of memory at its place %u of %u%s: %s\n", c->test.name, i, mine->n,
                    for_good ? " and after" : "", what);
        }
    }
    return wrong;
}

static int all_without_memory(const char *program, const char *filter, FILE *results)
{
    struct oom_places *all = oom_places_new(), *mine = oom_places_new();
    if (!all || !mine)
        return 1;
    int wrong = 0;
    for (struct unit_case *c = first; c; c = c->next)
        if (!filter || strstr(c->test.name, filter))
            wrong += case_without_memory(c, all, mine, stdout);
    if (results)
        fprintf(results, "%s %s/out_of_memory\n", wrong ? "fail" : "pass", program);
    printf("%s: %u places without memory, %d of their runs went wrong\n", program, all->n, wrong);
    return wrong > 0;
}
#else
static int all_without_memory(const char *program, const char *filter, FILE *results)
{
    (void)filter;
    if (results)
        fprintf(results, "skip %s/out_of_memory\n", program);
    printf("skip: only builds with AddressSanitizer can let allocations fail\n");
    return SKIPPED;
}
#endif

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--out-of-memory") == 0) {
        const char *path = getenv("PG_RESULTS");
        FILE *results = path ? fopen(path, "a") : NULL;
        int r = all_without_memory(basename(argv[0]), argc > 2 ? argv[2] : NULL, results);
        if (results)
            fclose(results);
        return r;
    }
    const char *results_path = getenv("PG_RESULTS");
    FILE *results = results_path ? fopen(results_path, "a") : NULL;
    char *program = basename(argv[0]);
    int passed = 0, failed = 0, skipped = 0;

    for (struct unit_case *c = first; c; c = c->next) {
        if (argc > 1 && !strstr(c->test.name, argv[1]))
            continue;
        const char *result = run_case(c);
        passed += !strcmp(result, "pass");
        failed += !strcmp(result, "fail");
        skipped += !strcmp(result, "skip");
        if (results) {
            fprintf(results, "%s %s/%s\n", result, program, c->test.name);
            fflush(results); /* or the next case's process would write it again */
        }
    }
    if (results)
        fclose(results);
    printf("%s: %d passed, %d failed, %d skipped\n", program, passed, failed, skipped);
    return failed > 0 || passed + skipped == 0;
}
