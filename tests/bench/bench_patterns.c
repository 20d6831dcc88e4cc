/* SPDX-License-Identifier: Apache-2.0 */
/* needs: rules rules/match */
/*
 * What a distinct string costs as the user's patterns become more: 10, 100, 1,000, 5,000 of them (a third
 * equalities, the others globs of one and of two pieces and regexes), all about one company's packages, so
 * that they share their beginnings as such patterns do. Strings are function names of several runtimes; one
 * in twenty is of that company's.
 *
 *     bench_patterns [STRINGS [COUNT]]    prints a line a count (or one): instructions (0 without counters)
 * and ns a distinct string, and the cost as a multiple of the first line's
 *
 * Where the kernel counts no instructions: valgrind --tool=callgrind --toggle-collect=measure bench_patterns
 * 20000 1000
 */
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/base/buffer.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "rules/compile.h"
#include "rules/match/match.h"

#define ROWS 1000u /* of the table; more patterns stand several in a row */

static void add_pattern(struct buffer *out, uint32_t i)
{
    static const char *const areas[] = {"orders", "billing", "search", "basket", "login"};
    const char *area = areas[i % ARRAY_LEN(areas)];
    switch (i % 6) {
    case 0: buffer_printf(out, "\"com.acme.%s.Service%u.call\"", area, i); break;
    case 1: buffer_printf(out, "\"acme/%s/handler%u.Serve\"", area, i); break;
    case 2: buffer_printf(out, "\"com.acme.%s.Handler%u.*\"", area, i); break;
    case 3: buffer_printf(out, "\"com.acme.%s.*.Worker%u.run*\"", area, i); break;
    case 4: buffer_printf(out, "/^com\\.acme\\.%s\\.\\w+\\.Job%u\\.\\w+$/", area, i); break;
    default: buffer_printf(out, "/^acme::%s::(?:sync|async)::Task%u::/", area, i); break;
    }
}

static struct buffer make_rules(uint32_t n)
{
    struct buffer text = BUFFER_INIT(0);
    buffer_add_str(&text, "rules 1\npack bench\n");
    buffer_add_str(&text, "table t (name) over frames nearest leaf {\n");
    uint32_t per_row = (n + ROWS - 1) / ROWS;
    for (uint32_t i = 0; i < n; i++) {
        buffer_add_str(&text, i % per_row == 0 ? "    " : " | ");
        add_pattern(&text, i);
        if ((i + 1) % per_row == 0 || i + 1 == n)
            buffer_printf(&text, " => \"n%u\"\n", i);
    }
    buffer_add_str(&text, "}\ncounter bench.time { on cpu  label name = t.name }\n");
    return text;
}

static struct bytes make_string(char *to, size_t size, uint32_t i)
{
    static const char *const forms[][2] = {
        {"java.util.concurrent.ThreadPoolExecutor$Worker", ".run(java.lang.Runnable, int)"},
        {"org.springframework.web.servlet.FrameworkServlet", ".doGet"},
        {"github.com/prometheus/client_golang/prometheus.(*Registry", ").Gather.func1"},
        {"std::__1::vector<absl::string_view, std::allocator<int> >::__push_back_slow_path<", ">"},
        {"tcp_v4_do_rcv_", ""},
        {"_PyEval_EvalFrameDefault.part.", ""},
        {"core::ptr::drop_in_place<alloc::vec::Vec<u8>>::h", "e"},
        {"__x64_sys_futex_", ""},
        {"runtime.mallocgc.func", ""},
        {"com.google.protobuf.CodedInputStream$ArrayDecoder", ".readRawVarint64"},
        {"com.acme.orders.internal.Worker", ".runLoop"},
    };
    const char *const *form = forms[i % 20 == 0 ? ARRAY_LEN(forms) - 1 : i % (ARRAY_LEN(forms) - 1)];
    int n = snprintf(to, size, "%s%u%s", form[0], i, form[1]);
    return bytes_of(to, (size_t)n);
}

static int open_counter(void)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_HARDWARE,
                                   .size = sizeof attr,
                                   .config = PERF_COUNT_HW_INSTRUCTIONS,
                                   .disabled = 1,
                                   .exclude_kernel = 1,
                                   .exclude_hv = 1};
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

struct cost {
    double instructions, ns;
    uint64_t hits;
};

/* Not inlined: callgrind is told its name. */
static __attribute__((noinline)) struct cost measure(const struct rules_program *program,
                                                     const struct bytes *texts, uint32_t n, int counter)
{
    struct rules_matcher *m = rules_matcher_new(program, NULL);
    uint64_t instructions = 0;
    struct cost cost = {0};
    if (!m)
        exit(1);
    rules_matcher_begin(m);
    if (counter >= 0) {
        ioctl(counter, PERF_EVENT_IOC_RESET, 0);
        ioctl(counter, PERF_EVENT_IOC_ENABLE, 0);
    }
    uint64_t start = clock_monotonic();
    struct rules_frame frame = {.inlined = false};
    memset(frame.field, 0xff, sizeof frame.field);
    uint32_t nothing = rules_matcher_frame(m, &frame); /* the class of a frame without a name */
    for (uint32_t i = 0; i < n; i++) {
        frame.field[RULE_FIELD_FUNCTION] = rules_matcher_string(m, texts[i]);
        cost.hits += rules_matcher_frame(m, &frame) != nothing;
    }
    cost.ns = (double)(clock_monotonic() - start) / n;
    if (counter >= 0) {
        ioctl(counter, PERF_EVENT_IOC_DISABLE, 0);
        if (read(counter, &instructions, sizeof instructions) != sizeof instructions)
            instructions = 0;
    }
    cost.instructions = (double)instructions / n;
    rules_matcher_free(m);
    return cost;
}

int main(int argc, char **argv)
{
    static const uint32_t counts[] = {10, 100, 1000, 5000};
    uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 100000;
    uint32_t only = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    char(*strings)[128] = calloc(n, sizeof *strings);
    struct bytes *texts = calloc(n, sizeof *texts);
    int counter = open_counter();
    double first = 0;
    if (!strings || !texts || n == 0)
        return 1;
    for (uint32_t i = 0; i < n; i++)
        texts[i] = make_string(strings[i], sizeof *strings, i);
    printf("%8s %22s %20s %8s\n", "patterns", "instructions a string", "ns a string", "ratio");
    for (size_t k = 0; k < ARRAY_LEN(counts); k++) {
        if (only != 0 && counts[k] != only)
            continue;
        struct buffer text = make_rules(counts[k]);
        struct rules_input input = {"bench.rules", buffer_bytes(&text), false};
        struct rules_diagnostics found;
        struct error e = {""};
        struct rule_set *set = rules_compile(&input, 1, &found);
        for (uint32_t i = 0; !set && i < found.n; i++)
            fputs(found.items[i].text, stderr);
        struct rules_program *program = set ? rules_program_new(set, &e) : NULL;
        if (!program) {
            fprintf(stderr, "bench_patterns: %s\n", e.text);
            return 1;
        }
        struct cost best = measure(program, texts, n, counter);
        for (int again = 0; again < 2 && only == 0; again++) {
            struct cost cost = measure(program, texts, n, counter);
            best.ns = min_of(best.ns, cost.ns);
        }
        double value = best.instructions > 0 ? best.instructions : best.ns;
        first = first > 0 ? first : value;
        printf("%8u %22.0f %20.1f %7.2fx\n", counts[k], best.instructions, best.ns, value / first);
        rules_program_free(program);
        rules_set_free(set);
        rules_diagnostics_release(&found);
        buffer_release(&text);
    }
    if (counter >= 0)
        close(counter);
    free(strings);
    free(texts);
    return 0;
}
