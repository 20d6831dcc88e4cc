/* SPDX-License-Identifier: Apache-2.0 */
/* needs: gateway/export */
/* Names and units of metrics and attributes, which rules and peers choose, in every strategy and escaping:
 * what comes out without quotes is what Prometheus takes without. The first line is the name, the second the
 * unit. */
#include "gateway/export/prometheus/prometheus.h"
#include "tests/fuzz/fuzz.h"

static void check(struct bytes name, enum prometheus_strategy strategy, bool is_label)
{
    bool underscores = strategy == PROMETHEUS_UNDERSCORES_WITH_SUFFIXES ||
                       strategy == PROMETHEUS_UNDERSCORES_WITHOUT_SUFFIXES;
    if (underscores && name.n > 0 && !prometheus_is_plain(name, is_label))
        abort();
    for (int e = PROMETHEUS_ESCAPE_UNDERSCORES; e <= PROMETHEUS_ESCAPE_VALUES; e++) {
        cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
        if (prometheus_escape(name, (enum prometheus_escaping)e, is_label, &out) < 0)
            abort();
        if (e != PROMETHEUS_ALLOW_UTF8 && name.n > 0 && !prometheus_is_plain(buffer_bytes(&out), is_label))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *line = size ? memchr(data, '\n', size) : NULL;
    struct bytes name = bytes_of(data, line ? (size_t)(line - data) : size);
    struct bytes unit = line ? bytes_of(line + 1, size - name.n - 1) : (struct bytes){0};
    struct buffer rewritten = BUFFER_INIT(0);
    if (prometheus_rewrite(bytes_of(data, size), PROMETHEUS_OPENMETRICS, &rewritten) < 0 ||
        rewritten.n > size)
        abort();
    buffer_release(&rewritten);
    for (int s = PROMETHEUS_UNDERSCORES_WITH_SUFFIXES; s <= PROMETHEUS_NO_TRANSLATION; s++)
        for (int k = METRIC_SUM; k <= METRIC_GAUGE; k++) {
            cleanup(buffer_release) struct buffer metric = BUFFER_INIT(0), label = BUFFER_INIT(0);
            if (prometheus_name(name, unit, (enum metric_kind)k, (enum prometheus_strategy)s, &metric) < 0 ||
                prometheus_label_name(name, (enum prometheus_strategy)s, &label) < 0)
                abort();
            check(buffer_bytes(&metric), (enum prometheus_strategy)s, false);
            check(buffer_bytes(&label), (enum prometheus_strategy)s, true);
        }
    return 0;
}
