#include "gateway/capture_file.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/coding/coding.h"
#include "proto/otlp/json_reader.h"
#include "proto/otlp/profiles_json.h"

#define CAPTURE_MAX (1u << 30) /* bytes of one capture, plain */

static const struct profiles_limits limits = {.column_bytes = (size_t)4 << 30, .depth = 64};

static int read_whole(const char *path, struct buffer *out, struct error *e)
{
    FILE *f = fopen(path, "rbe");
    if (!f)
        return error_set(e, -errno, "cannot read %s: %s", path, strerror(errno));
    int r = 0;
    size_t n;
    do {
        uint8_t *at = buffer_cursor(out, 1 << 16);
        n = at ? fread(at, 1, 1 << 16, f) : 0;
        out->n += n;
        if (!at)
            r = error_set(e, -EFBIG, "%s: longer than 1 GiB, or out of memory", path);
    } while (n > 0);
    if (r == 0 && ferror(f))
        r = error_set(e, -EIO, "cannot read %s", path);
    fclose(f);
    return r;
}

/* Gunzips what is gzip, in place of *body. */
static int unpack(const char *path, struct buffer *body, struct error *e)
{
    if (body->n < 2 || body->p[0] != 0x1f || body->p[1] != 0x8b)
        return 0;
    struct buffer plain = BUFFER_INIT(CAPTURE_MAX);
    struct coding_decoder *decoder = coding_decoder_new();
    int r = decoder ? coding_decode(decoder, CODING_GZIP, buffer_bytes(body), CAPTURE_MAX, PROFILES_PADDING,
                                    NULL, &plain)
                    : -ENOMEM;
    coding_decoder_free(decoder);
    buffer_release(body);
    *body = plain;
    return r == 0 ? 0 : error_set(e, -EINVAL, "%s: corrupt gzip, or longer than 1 GiB", path);
}

struct reading {
    const char *path;
    struct profiles view;
    int (*each)(void *context, const struct profiles *view, uint32_t request);
    void *context;
    uint32_t request;
};

static int take(struct reading *r, struct bytes body, enum profiles_layout layout, struct error *e)
{
    int result = profiles_decode_as(&r->view, body, layout, &limits, e);
    if (result != 0)
        return error_prefix(e, result < 0 ? result : -EBADMSG, "%s: request %u: ", r->path, r->request + 1);
    return r->each(r->context, &r->view, r->request++);
}

static int take_json(struct reading *r, struct bytes texts, struct error *e)
{
    struct buffer proto = BUFFER_INIT(CAPTURE_MAX);
    int result = 0;
    do {
        size_t n = json_text_length(texts);
        struct bytes text = bytes_of(texts.p, n > 0 ? n : texts.n); /* if it is none, we are told where */
        enum profiles_layout layout;
        proto.n = 0;
        result = profiles_json_transcode_as_written(text, &limits, NULL, &proto, &layout, e);
        if (result == 0)
            result = take(r, buffer_bytes(&proto), layout, e);
        else
            result =
                error_prefix(e, result < 0 ? result : -EBADMSG, "%s: request %u: ", r->path, r->request + 1);
        texts = bytes_of(texts.p + text.n, texts.n - text.n);
        while (texts.n > 0 && texts.p[0] != '\0' && strchr(" \t\r\n", texts.p[0]))
            texts = bytes_of(texts.p + 1, texts.n - 1);
    } while (result == 0 && texts.n > 0);
    buffer_release(&proto);
    return result;
}

int capture_file_read(const char *path,
                      int (*each)(void *context, const struct profiles *view, uint32_t request),
                      void *context, struct error *e)
{
    struct reading reading = {.path = path, .each = each, .context = context};
    struct buffer body = BUFFER_INIT(CAPTURE_MAX + PROFILES_PADDING);
    int r = profiles_init(&reading.view, NULL);
    if (r < 0)
        return error_set(e, r, "out of memory");
    r = read_whole(path, &body, e);
    if (r == 0)
        r = unpack(path, &body, e);
    if (r == 0 && buffer_reserve(&body, PROFILES_PADDING) < 0)
        r = error_set(e, -ENOMEM, "out of memory");
    if (r == 0 && body.n > 0 && body.p[0] == '{') {
        r = take_json(&reading, buffer_bytes(&body), e);
    } else if (r == 0) {
        memset(body.p + body.n, 0, PROFILES_PADDING);
        r = take(&reading, buffer_bytes(&body), PROFILES_LAYOUT_UNKNOWN, e);
    }
    profiles_release(&reading.view);
    buffer_release(&body);
    return r;
}
