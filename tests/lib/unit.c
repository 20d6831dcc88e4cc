/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <ftw.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "proto/base/clock.h"

#ifdef PG_OOM
#include "tests/lib/oom_exempt.h"
#endif

/* Both guard against hangs alone: ten times what the slowest case takes with a sanitizer on a quiet machine,
 * and long after anything that is due has come on one that has eight other things to do. */
#define CASE_SECONDS      300
#define PATIENCE_AT_LEAST (60u * (uint64_t)NSEC_PER_SEC)

#define SKIPPED 77 /* exit code of a case that could not run here, as ctest and automake use it */

uint64_t unit_patience_max = UINT64_MAX;

static struct unit_point unshared;
struct unit_point *unit_point = &unshared;
static struct unit_case *first, **last = &first;
static const char *program, *running; /* which case this is */

void unit_register(struct unit_case *c)
{
    *last = c;
    last = &c->next;
}

static FILE *added_to(const char *variable)
{
    const char *path = getenv(variable);
    return path ? fopen(path, "a") : NULL;
}

void unit_say_skipped(const char *what, const char *why)
{
    printf("skip: %s: %s\n", what, why);
    fflush(stdout);
    FILE *skips = added_to("PG_SKIPS");
    if (skips) {
        fprintf(skips, "%s/%s: %s\n", program, what, why);
        fclose(skips);
    }
}

void unit_skip(const char *why)
{
    if (running) /* not where memory fails: there a case is run again and again */
        unit_say_skipped(running, why);
    _exit(SKIPPED);
}

/* Seconds on the wall and of CPU time. */
static void say_time(uint64_t began, const char *how)
{
    FILE *times = added_to("PG_TIMES");
    if (!times)
        return;
    struct rusage own, cases;
    getrusage(RUSAGE_SELF, &own);
    getrusage(RUSAGE_CHILDREN, &cases);
    const struct timeval all[] = {own.ru_utime, own.ru_stime, cases.ru_utime, cases.ru_stime};
    double cpu = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cpu += (double)all[i].tv_sec + (double)all[i].tv_usec / 1e6;
    fprintf(times, "%.1f %.1f %s%s\n", (double)(clock_monotonic() - began) / NSEC_PER_SEC, cpu, program, how);
    fclose(times);
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

void unit_made_at(bool is_made, const char *what, const char *file, int line)
{
    if (!is_made && unit_patience_max != UINT64_MAX && gettid() != getpid())
        _exit(0); /* out of memory in a thread of the case, from where check cannot end it */
    ck_assert_msg(is_made, "%s:%d: %s gave nothing", file, line, what);
}

/* ---- the program's folder ---- */

static char folder[UNIT_PATH_MAX - 16]; /* leaves room for a name in it */

static bool folder_make(void)
{
    const char *in = getenv("TMPDIR") ?: "/tmp";
    int n = snprintf(folder, sizeof folder, "%s/unit-XXXXXX", in);
    if (n < (int)sizeof folder && mkdtemp(folder) && setenv("TMPDIR", folder, 1) == 0)
        return true;
    printf("no folder for cases in %s (TMPDIR; at most %zu bytes)\n", in,
           sizeof folder - sizeof "/unit-XXXXXX");
    return false;
}

static int remove_one(const char *path, const struct stat *st, int what, struct FTW *walk)
{
    (void)st;
    (void)what;
    (void)walk;
    return remove(path);
}

static void folder_remove(void)
{
    enum { OPEN_MAX_OF_WALK = 16 };
    if (nftw(folder, remove_one, OPEN_MAX_OF_WALK, FTW_DEPTH | FTW_PHYS) != 0)
        printf("%s cannot be removed: %m\n", folder);
}

void unit_new_folder(char ret[static UNIT_PATH_MAX])
{
    snprintf(ret, UNIT_PATH_MAX, "%s/XXXXXX", folder);
    ck_assert_msg(mkdtemp(ret) != NULL, "%s: %m", ret);
}

int unit_new_file(char ret[static UNIT_PATH_MAX], const char *ending)
{
    snprintf(ret, UNIT_PATH_MAX, "%s/XXXXXX%s", folder, ending);
    int fd = mkstemps(ret, (int)strlen(ending));
    ck_assert_msg(fd >= 0, "%s: %m", ret);
    return fd;
}

uint64_t unit_patience(uint64_t ordinarily)
{
    uint64_t patience = ordinarily > PATIENCE_AT_LEAST ? ordinarily : PATIENCE_AT_LEAST;
    return patience < unit_patience_max ? patience : unit_patience_max;
}

unsigned unit_rounds(unsigned n)
{
#ifdef PG_OOM
    if (!getenv("PG_SOAK"))
        return n < 4 ? 1 : n / 4;
#endif
    return n;
}

/* A case is a suite of its own, so that its result can be told from the others' by count. */
static const char *run_case(struct unit_case *c, bool noted)
{
    Suite *suite = suite_create(c->test.name);
    TCase *tcase = tcase_create(c->test.name);
    tcase_set_timeout(tcase, CASE_SECONDS);
    if (noted)
        tcase_add_checked_fixture(tcase, unit_oom_note, unit_oom_noted);
    tcase_add_test(tcase, &c->test);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    *unit_point = (struct unit_point){0};
    srunner_run_all(runner, CK_SILENT);

    const char *result = "pass";
    TestResult **failed = srunner_failures(runner);
    if (srunner_ntests_failed(runner) > 0) {
        const char *message = tr_msg(failed[0]);
        bool died = tr_rtype(failed[0]) == CK_ERROR && unit_point->file;
        result = strstr(message, "return value 77") ? "skip" : "fail";
        printf("%s: %s:%d: %s\n", result, died ? unit_point->file : tr_lfile(failed[0]),
               died ? unit_point->line : tr_lno(failed[0]), message);
    }
    free(failed);
    srunner_free(runner);
    return result;
}

#ifndef PG_OOM
bool unit_oom_begin(const struct unit_case *cases, const char *filter)
{
    (void)cases;
    (void)filter;
    return false;
}
void unit_oom_next(void) {}
void unit_oom_note(void) {}
void unit_oom_noted(void) {}
void unit_oom_try(struct unit_case *c)
{
    (void)c;
}
uint32_t unit_oom_end(const char *name)
{
    (void)name;
    return 0;
}
#endif

int main(int argc, char **argv)
{
    uint64_t began = clock_monotonic();
    void *shared = mmap(NULL, sizeof *unit_point, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unit_point = shared == MAP_FAILED ? unit_point : shared;
    FILE *results = added_to("PG_RESULTS");
    program = basename(argv[0]);
    if (!folder_make())
        return 1;
    bool oom = argc > 1 && strcmp(argv[1], "--out-of-memory") == 0;
    const char *filter = argv[oom ? 2 : 1];
    if (oom && !unit_oom_begin(first, filter)) {
        if (results) {
            fprintf(results, "skip %s/out_of_memory\n", program);
            fflush(results);
        }
        unit_say_skipped("out_of_memory", "only builds with AddressSanitizer can let allocations fail");
        oom = false;
    }
    int passed = 0, failed = 0, skipped = 0;

    for (struct unit_case *c = first; c; c = c->next) {
        if (filter && !strstr(c->test.name, filter))
            continue;
        bool fails = oom && !c->sweeps;
        if (fails)
            unit_oom_next();
        running = c->test.name;
        const char *result = run_case(c, fails);
        running = NULL;
        passed += !strcmp(result, "pass");
        failed += !strcmp(result, "fail");
        skipped += !strcmp(result, "skip");
        if (results) {
            fprintf(results, "%s %s/%s\n", result, program, c->test.name);
            fflush(results); /* or the next case's process would write it again */
        }
        if (fails && strcmp(result, "fail") != 0)
            unit_oom_try(c);
    }
    uint32_t wrong = oom ? unit_oom_end(program) : 0;
    if (results && oom)
        fprintf(results, "%s %s/out_of_memory\n", wrong > 0 ? "fail" : "pass", program);
    if (results)
        fclose(results);
    say_time(began, oom ? "/out_of_memory" : "");
    folder_remove();
    printf("%s: %d passed, %d failed, %d skipped\n", program, passed, failed, skipped);
    return failed > 0 || wrong > 0 || passed + skipped == 0;
}
