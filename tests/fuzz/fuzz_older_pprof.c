/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/pprof */
/*
 * What pprof was before it was protobuf: any bytes are refused with words or become a pprof that is read,
 * with as many samples; and the account is even afterwards.
 */
#include "proto/pprof/legacy.h"
#include "proto/pprof/pprof.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct budget budget = BUDGET_INIT(64u << 20, NULL);
    struct buffer out = BUFFER_INIT(16u << 20);
    struct error e = {""};
    struct pprof pprof;
    struct pprof_sample sample;
    int r = pprof_from_legacy(bytes_of(data, len), &budget, &out, &e);
    require((r == PPROF_MALFORMED) == (e.text[0] != '\0') && (r == 0 || out.n == 0));
    require(r != 0 || pprof_is_legacy(bytes_of(data, len)));
    pprof_init(&pprof, NULL);
    if (r == 0) {
        require(pprof_is_likely(buffer_bytes(&out)) && pprof_read(&pprof, buffer_bytes(&out), &e) == 0);
        for (struct pprof_samples at = pprof_samples(&pprof);
             (r = pprof_next(&pprof, &at, &sample, &e)) == 0;)
            for (uint32_t i = 0; i < sample.n_locations; i++)
                require(sample.locations[i] <= pprof.locations.n);
        require(r == PPROF_END);
    }
    pprof_release(&pprof);
    buffer_release(&out);
    require(budget.used == 0);
    return 0;
}
