#include "gateway/export/speak.h"

#include <assert.h>

#include "proto/client/slot.h"

void exporter_speak(struct otlp_exporter *x, const char *content_type, const char *content_encoding)
{
    struct call_head *h = &x->head;
    bool found = false;
    assert(h->protocol == OTLP_HTTP);
    for (uint32_t i = 0; i < h->n_headers; i++) {
        if (!bytes_is(h->headers[i].name, "content-type"))
            continue;
        h->headers[i].value = bytes_str(content_type);
        found = true;
    }
    assert(found);
    if (!content_encoding)
        return;
    /* call_head_init makes room for eight of our own beside the operator's; HTTP without compression uses
     * two. */
    assert(h->compression == OTLP_COMPRESS_NONE);
    h->headers[h->n_headers++] =
        (struct http_header){BYTES_LIT("content-encoding"), bytes_str(content_encoding)};
}
