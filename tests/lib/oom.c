/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/oom.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <sanitizer/common_interface_defs.h>

#include "tests/lib/library_oom.h"

#define FRAMES 5 /* what tells one place from another */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct oom_places *recording;
static uint64_t failing;                     /* a place, or 0 */
static uint64_t nth_from, nth_to, nth_count; /* by number; nth_from 0 is off */
static bool for_good, paused, libraries_too;
static uint32_t failures;

/* ---- the set ---- */

struct oom_places *oom_places_new(void)
{
    void *p =
        mmap(NULL, sizeof(struct oom_places), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static uint32_t slot_of(const struct oom_places *p, uint64_t place)
{
    uint32_t mask = 4 * OOM_PLACES_MAX - 1, i = (uint32_t)(place >> 32) & mask;
    while (p->seen[i] != 0 && p->seen[i] != place)
        i = (i + 1) & mask;
    return i;
}

bool oom_places_has(const struct oom_places *p, uint64_t place)
{
    return p->seen[slot_of(p, place)] == place;
}

bool oom_places_add(struct oom_places *p, uint64_t place, int library)
{
    if (p->n == OOM_PLACES_MAX || oom_places_has(p, place))
        return false;
    p->seen[slot_of(p, place)] = place;
    p->library[p->n] = (int8_t)library;
    p->place[p->n++] = place;
    return true;
}

void oom_look_at_libraries(bool look)
{
    libraries_too = look;
}

void oom_record(struct oom_places *p)
{
    recording = p;
}

void oom_fail(uint64_t place, bool stays)
{
    failing = place;
    for_good = stays;
    failures = 0;
}

void oom_fail_nth(uint64_t n, uint64_t how_many)
{
    pthread_mutex_lock(&lock);
    nth_from = n;
    nth_to = how_many > UINT64_MAX - n ? UINT64_MAX : n + how_many;
    nth_count = 0;
    failures = 0;
    paused = false;
    pthread_mutex_unlock(&lock);
}

void oom_pause(bool pause)
{
    pthread_mutex_lock(&lock);
    paused = pause;
    pthread_mutex_unlock(&lock);
}

uint32_t oom_failures(void)
{
    pthread_mutex_lock(&lock);
    uint32_t n = failures;
    pthread_mutex_unlock(&lock);
    return n;
}

void oom_stop(void)
{
    pthread_mutex_lock(&lock);
    failing = nth_from = 0;
    for_good = false;
    recording = NULL;
    pthread_mutex_unlock(&lock);
}

/* ---- the allocator's front ---- */

/* check takes memory, too, and ends the process without it. It comes from one archive, so its code is one
 * stretch; these are functions of its objects. */
void *emalloc(size_t n);
void check_list_apply(void *list, void (*fn)(void *));
void srunner_end_logging(SRunner *runner);
void send_failure_info(const char *message);
int upack(char *buf, void *msg, int *type);
char *ck_strdup_printf(const char *format, ...);

static bool is_of_check(const void *at)
{
    static uintptr_t from = UINTPTR_MAX, to;
    if (to == 0) {
        const uintptr_t functions[] = {(uintptr_t)suite_create,
                                       (uintptr_t)emalloc,
                                       (uintptr_t)check_list_apply,
                                       (uintptr_t)srunner_set_log,
                                       (uintptr_t)upack,
                                       (uintptr_t)send_failure_info,
                                       (uintptr_t)srunner_print,
                                       (uintptr_t)srunner_run,
                                       (uintptr_t)ck_strdup_printf,
                                       (uintptr_t)tcase_fn_start,
                                       (uintptr_t)tr_msg,
                                       (uintptr_t)srunner_run_all,
                                       (uintptr_t)srunner_ntests_run,
                                       (uintptr_t)srunner_end_logging};
        for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
            from = functions[i] < from ? functions[i] : from;
            to = functions[i] > to ? functions[i] : to;
        }
        to += 512; /* the last one's body */
    }
    return (uintptr_t)at >= from && (uintptr_t)at < to;
}

/* The return addresses up the stack to the case, mixed: who runs it is none of its places. ASan builds keep
 * frame pointers; a frame of a library that has none ends the walk, for the next one must lie above, not far.
 */
static uint64_t place_of(void *const *frame, const void *caller)
{
    uint64_t h = 0x9e3779b97f4a7c15u;
    const void *at = caller;
    for (int i = 0; i < FRAMES && !is_of_check(at); i++) {
        h = (h ^ (uintptr_t)at) * 0xff51afd7ed558ccdu;
        h ^= h >> 29;
        void *const *up = *frame;
        if ((uintptr_t)up <= (uintptr_t)frame || (uintptr_t)up - (uintptr_t)frame > 65536 ||
            (uintptr_t)up % sizeof *up != 0)
            break;
        frame = up;
        at = frame[1];
    }
    return h | 1;
}

/* An allocation at a place that takes part: whether it succeeds. */
static bool decide(uint64_t place, int library)
{
    bool yes = true;
    pthread_mutex_lock(&lock);
    if (recording)
        oom_places_add(recording, place, library);
    if (failing && (failures > 0 ? for_good : place == failing))
        yes = false;
    if (library < 0 && nth_from && !paused) {
        nth_count++;
        yes = yes && (nth_count < nth_from || nth_count >= nth_to);
    }
    failures += !yes;
    pthread_mutex_unlock(&lock);
    if (!yes && getenv("PG_OOM_TRACE"))
        __sanitizer_print_stack_trace();
    if (!yes)
        errno = ENOMEM;
    return yes;
}

static __attribute__((noinline)) bool may(void *const *frame, const void *caller)
{
    if ((!recording && !failing && !nth_from) || is_of_check(caller))
        return true;
    return decide(recording || failing ? place_of(frame, caller) : 0, -1);
}

/* The sanitizer takes memory while it begins, when nothing that it instruments may run yet. */
#define EARLY __attribute__((no_sanitize("address", "undefined")))

/* By number (oom_fail_nth) only our own are: a sweep would never end for all that a handshake takes. */
static EARLY __attribute__((noinline)) bool may_library(const void *caller, enum library_oom_by by)
{
    static __thread bool inside; /* the unwinder may take memory */
    if (!libraries_too || (!recording && !failing) || inside)
        return true;
    int library = library_oom_of(caller);
    if (library < 0 || library_oom_is_fatal(library, by))
        return true;
    inside = true;
    uint64_t place = library_oom_place();
    inside = false;
    return place == 0 || decide(place, library);
}

#define MAY() may(__builtin_frame_address(0), __builtin_return_address(0))

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
int __real_vasprintf(char **ret, const char *format, va_list args);

void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);
int __wrap_vasprintf(char **ret, const char *format, va_list args);
int __wrap_asprintf(char **ret, const char *format, ...);

void *__wrap_malloc(size_t n)
{
    return MAY() ? __real_malloc(n) : NULL;
}

void *__wrap_calloc(size_t n, size_t size)
{
    return MAY() ? __real_calloc(n, size) : NULL;
}

void *__wrap_realloc(void *p, size_t n)
{
    return MAY() ? __real_realloc(p, n) : NULL;
}

char *__wrap_strdup(const char *s)
{
    return MAY() ? __real_strdup(s) : NULL;
}

int __wrap_vasprintf(char **ret, const char *format, va_list args)
{
    return MAY() ? __real_vasprintf(ret, format, args) : -1;
}

int __wrap_asprintf(char **ret, const char *format, ...)
{
    if (!MAY())
        return -1;
    va_list args;
    va_start(args, format);
    int n = __real_vasprintf(ret, format, args);
    va_end(args);
    return n;
}

/* ---- shared libraries ----
 *
 * They find these before the sanitizer's. What comes here from the program itself is __real_malloc and the
 * like: a test's, or one of ours that was let through. */

void *__interceptor_malloc(size_t n);
void *__interceptor_calloc(size_t n, size_t size);
void *__interceptor_realloc(void *p, size_t n);
char *__interceptor_strdup(const char *s);

EARLY void *malloc(size_t n)
{
    return may_library(__builtin_return_address(0), BY_MALLOC) ? __interceptor_malloc(n) : NULL;
}

EARLY void *calloc(size_t n, size_t size)
{
    return may_library(__builtin_return_address(0), BY_CALLOC) ? __interceptor_calloc(n, size) : NULL;
}

EARLY void *realloc(void *p, size_t n)
{
    return may_library(__builtin_return_address(0), BY_REALLOC) ? __interceptor_realloc(p, n) : NULL;
}

EARLY char *strdup(const char *s)
{
    return may_library(__builtin_return_address(0), BY_STRDUP) ? __interceptor_strdup(s) : NULL;
}
