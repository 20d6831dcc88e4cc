/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/commands/capture_file.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/file.h"
#include "proto/base/macros.h"
#include "proto/base/mapping.h"
#include "proto/coding/coding.h"
#include "proto/convert/formats.h"
#include "proto/convert/from_pprof.h"
#include "proto/convert/from_text.h"
#include "proto/convert/original.h"
#include "proto/otlp/json/reader.h"
#include "proto/otlp/json/profiles.h"
#include "proto/pprof/legacy.h"

#define ZSTD_MAGIC "\x28\xb5\x2f\xfd" /* RFC 8878 section 3.1.1 */

static const struct profiles_limits limits = {.column_bytes = (size_t)4 << 30, .depth = 64};

/* What a file has: mapped where it can be, so that it need not be in memory, or in a buffer; in both cases
 * with PROFILES_PADDING readable bytes behind it. */
struct input {
    struct bytes bytes;
    struct mapping pages;
    struct buffer buffer;
};

static int read_stream(const char *path, int fd, struct buffer *out, struct error *e)
{
    int r = file_read_from(fd, path, CAPTURE_MAX, out, e);
    if (r != 0)
        return r > 0 ? -r : r;
    if (buffer_reserve(out, PROFILES_PADDING) < 0)
        return error_set(e, -ENOMEM, "out of memory");
    memset(out->p + out->n, 0, PROFILES_PADDING);
    return 0;
}

static int open_input(const char *path, struct input *in, struct error *e)
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "rbe");
    if (!f)
        return error_set(e, -errno, "cannot read %s: %s", path, strerror(errno));
    int r = mapping_open(&in->pages, fileno(f), PROFILES_PADDING);
    if (r < 0)
        r = error_set(e, r, "out of memory");
    else if (r == MAPPING_NONE)
        r = read_stream(path, fileno(f), &in->buffer, e);
    else if (in->pages.bytes.n > CAPTURE_MAX)
        r = error_set(e, -EFBIG, "%s: longer than 1 GiB", path);
    in->bytes = in->pages.room ? in->pages.bytes : buffer_bytes(&in->buffer);
    if (f != stdin)
        fclose(f);
    return r;
}

/* Its memory goes: nobody looks at it any more. */
static int release_input(const char *path, struct input *in, int r, struct error *e)
{
    in->bytes = (struct bytes){0};
    buffer_release(&in->buffer);
    return mapping_close(&in->pages) ? error_set(e, -EIO, "%s: was changed while it was read", path) : r;
}

static enum coding coding_of(struct bytes b)
{
    return coding_is_gzip(b) ? CODING_GZIP : bytes_starts(b, ZSTD_MAGIC) ? CODING_ZSTD : CODING_IDENTITY;
}

/* Unpacks what is packed, in its place. */
static int unpack(const char *path, struct input *in, struct error *e)
{
    const enum coding coding = coding_of(in->bytes);
    if (coding == CODING_IDENTITY)
        return 0;
    struct buffer plain = BUFFER_INIT(CAPTURE_MAX);
    struct coding_decoder *decoder = coding_decoder_new();
    int r = decoder ? coding_decode(decoder, coding, in->bytes, CAPTURE_MAX, PROFILES_PADDING, NULL, &plain)
                    : -ENOMEM;
    coding_decoder_free(decoder);
    r = r == 0 ? 0 : error_set(e, -EINVAL, "%s: corrupt %s, or longer than 1 GiB", path, coding_name(coding));
    r = release_input(path, in, r, e);
    in->buffer = plain;
    in->bytes = buffer_bytes(&plain);
    if (r == 0)
        memset(plain.p + plain.n, 0, PROFILES_PADDING);
    return r;
}

/* ---- requests ---- */

#define PLACE_MAX 512 /* bytes of a path and a line number in a message */

typedef int each_request(void *context, const struct capture_request *request);

/* One request, or as many as there are, one behind the other: the Collector's file exporter writes one a
 * line.
 */
static int read_json(const char *path, struct bytes texts, each_request *each, void *context, struct error *e)
{
    cleanup(buffer_release) struct buffer proto = BUFFER_INIT(CAPTURE_MAX);
    unsigned line = 1;
    int r = 0;
    do {
        char place[PLACE_MAX];
        snprintf(place, sizeof place, "%s:%u", path, line);
        size_t n = json_text_length(texts);
        struct bytes text = bytes_of(texts.p, n > 0 ? n : texts.n); /* if it is none, we are told where */
        struct profiles_written as;
        proto.n = 0;
        r = profiles_json_transcode(text, &limits, NULL, &proto, &as, e);
        if (r == 0)
            r = each(context,
                     &(struct capture_request){buffer_bytes(&proto), as.layout, place, .was_json = true});
        else if (r < 0 || r == PROFILES_TOO_LARGE)
            r = error_set(e, r < 0 ? r : -E2BIG, "%s: out of memory, or longer than 1 GiB as protobuf",
                          place);
        else
            r = error_prefix(e, -EBADMSG, "%s: ", place);
        texts = bytes_of(texts.p + text.n, texts.n - text.n);
        for (size_t i = 0; i < text.n; i++)
            line += text.p[i] == '\n';
        while (texts.n > 0 && texts.p[0] != '\0' && strchr(" \t\r\n", texts.p[0])) {
            line += texts.p[0] == '\n';
            texts = bytes_of(texts.p + 1, texts.n - 1);
        }
    } while (r == 0 && texts.n > 0);
    return r;
}

/* Requests in protobuf, each behind its length in four bytes, big-endian: the Collector's file exporter with
 * `format: proto`. */
static int read_delimited(const char *path, struct bytes rest, each_request *each, void *context,
                          struct error *e)
{
    int r = 0;
    for (unsigned number = 1; rest.n > 0 && r == 0; number++) {
        char place[PLACE_MAX];
        uint32_t n = 0;
        snprintf(place, sizeof place, "%s: request %u", path, number);
        if (rest.n >= sizeof n)
            memcpy(&n, rest.p, sizeof n);
        n = be32toh(n);
        if (rest.n < sizeof n || n > rest.n - sizeof n)
            return error_set(
                e, -EBADMSG,
                "%s: the file ends inside it, read as requests behind their lengths since it begins "
                "with a 0",
                place);
        r = each(context, &(struct capture_request){bytes_of(rest.p + sizeof n, n), PROFILES_LAYOUT_UNKNOWN,
                                                    place, false});
        rest = bytes_of(rest.p + sizeof n + n, rest.n - sizeof n - n);
    }
    return r;
}

/* How it went that something was made OTLP, beside 0 and -ENOMEM. */
enum {
    MADE_MALFORMED = 1, /* *e says why */
    MADE_TOO_LARGE,
};

/* Hands over what was made of something else, and releases it. */
static int hand_over(const char *path, int made, struct buffer *request, each_request *each, void *context,
                     struct error *e)
{
    int r;
    if (made == MADE_MALFORMED)
        r = error_prefix(e, -EBADMSG, "%s: ", path);
    else if (made == MADE_TOO_LARGE)
        r = error_set(e, -EFBIG, "%s: longer than 1 GiB as OTLP", path);
    else if (made < 0)
        r = error_set(e, made, "%s: out of memory", path);
    else
        r = each(context, &(struct capture_request){buffer_bytes(request), PROFILES_LAYOUT_1_10, path,
                                                    .was_other = true});
    buffer_release(request);
    return r;
}

static int in_pieces(const char *path, struct input *pprof, build_put *put, void *context, struct error *e)
{
    struct from_pprof *converter = from_pprof_new(NULL);
    e->text[0] = 0;
    int r = converter ? from_pprof_pieces(converter, pprof->bytes, pprof->pages.room ? &pprof->pages : NULL,
                                          &from_pprof_anybody, CAPTURE_MAX, put, context, e)
                      : -ENOMEM;
    from_pprof_free(converter);
    if (r < 0 && e->text[0] == 0) /* not put's */
        return error_set(e, r, "%s: out of memory", path);
    return r == PPROF_MALFORMED        ? error_prefix(e, -EBADMSG, "%s: ", path)
           : r == FROM_PPROF_TOO_LARGE ? error_set(e, -EFBIG, "%s: longer than 1 GiB as OTLP", path)
                                       : r;
}

/* `pprof` is released as soon as it was read. put may be NULL. */
static int read_pprof(const char *path, struct input *pprof, each_request *each, build_put *put,
                      void *context, struct error *e)
{
    struct bytes original;
    if (original_of(pprof->bytes, &original))
        return each(context, &(struct capture_request){original, PROFILES_LAYOUT_1_10, path,
                                                       .was_other = true, .was_kept = true});
    if (put)
        return in_pieces(path, pprof, put, context, e);
    struct from_pprof *converter = from_pprof_new(NULL);
    struct buffer request = BUFFER_INIT(CAPTURE_MAX);
    int r = converter ? from_pprof(converter, pprof->bytes, &from_pprof_anybody, &request, e) : -ENOMEM;
    from_pprof_free(converter);
    int read = release_input(path, pprof, 0, e);
    if (read < 0) {
        buffer_release(&request);
        return read;
    }
    return hand_over(path,
                     r == PPROF_MALFORMED        ? MADE_MALFORMED
                     : r == FROM_PPROF_TOO_LARGE ? MADE_TOO_LARGE
                                                 : r,
                     &request, each, context, e);
}

static int read_legacy(const char *path, struct bytes text, each_request *each, build_put *put, void *context,
                       struct error *e)
{
    struct input pprof = {.buffer = BUFFER_INIT(CAPTURE_MAX)};
    int r = pprof_from_legacy(text, NULL, &pprof.buffer, e);
    pprof.bytes = buffer_bytes(&pprof.buffer);
    if (r == PPROF_MALFORMED)
        r = error_prefix(e, -EBADMSG, "%s: ", path);
    else if (r < 0)
        r = error_set(e, r, "%s: out of memory, or longer than 1 GiB as pprof", path);
    else
        r = read_pprof(path, &pprof, each, put, context, e);
    buffer_release(&pprof.buffer);
    return r;
}

static int read_text(const char *path, enum from_text_format format, struct bytes text, each_request *each,
                     void *context, struct error *e)
{
    static const struct from_text_options options = {
        .origin = {.scope = BYTES_LIT("profgate"), .version = BYTES_LIT(PROFGATE_VERSION)}};
    struct from_text *converter = from_text_new(NULL);
    struct buffer request = BUFFER_INIT(CAPTURE_MAX);
    int r = converter ? from_text(converter, format, text, &options, &request, e) : -ENOMEM;
    from_text_free(converter);
    return hand_over(path,
                     r == FROM_TEXT_MALFORMED   ? MADE_MALFORMED
                     : r == FROM_TEXT_TOO_LARGE ? MADE_TOO_LARGE
                                                : r,
                     &request, each, context, e);
}

/* What people take for profiles that we read, by how it begins, which OTLP does not. */
static const char *stranger(struct bytes b)
{
    static const struct {
        const char *begins, *is;
    } known[] = {
        {"FLR", "a recording of Java's Flight Recorder"},
        {"JAVA PROFILE", "a heap dump of Java's"},
        {"PERFILE2", "perf.data, of which `perf script` makes a text"},
        {"\xff\xfe", "text in UTF-16, not UTF-8"},
        {"\xfe\xff", "text in UTF-16, not UTF-8"},
        {"\x1f\x8b", "packed twice"},
        {ZSTD_MAGIC, "packed twice"},
        {"PK\3\4", "a zip archive"},
        {"heap_v2/", "a heap profile of jemalloc's, of which `jeprof --collapsed PROGRAM` makes a text"},
        {"goroutine ", "Go's stacks as text: with debug=0 they are a profile"},
        {"[{", "JSON, but no OTLP's: a trace of Chrome's, or what looks like it"},
    };
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (bytes_starts(b, known[i].begins))
            return known[i].is;
    return NULL;
}

/* As folded stacks do, which may be called like anything: "goroutine 1;main 3". */
static bool begins_with_a_count(struct bytes b)
{
    const uint8_t *end = memchr(b.p, '\n', b.n);
    struct bytes line = bytes_trim(bytes_of(b.p, end ? (size_t)(end - b.p) : b.n));
    size_t at = line.n;
    while (at > 0 && line.p[at - 1] >= '0' && line.p[at - 1] <= '9')
        at--;
    return at < line.n && at > 0 && line.p[at - 1] == ' ';
}

static int refuse(const char *path, const char *is, struct error *e)
{
    return error_set(e, -EBADMSG, "%s: %s: no profile that can be read here", path, is);
}

static int read_otlp(const char *path, struct input *in, each_request *each, void *context, struct error *e)
{
    const struct bytes b = in->bytes;
    const char *is = stranger(b);
    if (is)
        return refuse(path, is, e);
    if (b.n > 0 && b.p[0] == 0) /* no field has that number; and a length below 16 MiB begins so */
        return read_delimited(path, b, each, context, e);
    return each(context, &(struct capture_request){b, PROFILES_LAYOUT_UNKNOWN, path,
                                                   .pages = in->pages.room ? &in->pages : NULL});
}

static int read_any(const char *path, struct input *in, each_request *each, build_put *put, void *context,
                    struct error *e)
{
    const struct bytes b = in->bytes;
    switch (convert_guess(b)) {
    case CONVERT_IS_JSON: return read_json(path, from_text_without_mark(b), each, context, e);
    case CONVERT_IS_OLDER_PPROF: return read_legacy(path, b, each, put, context, e);
    case CONVERT_IS_TEXT:
        if (stranger(b) && !begins_with_a_count(b))
            return refuse(path, stranger(b), e);
        return read_text(path, from_text_guess(b), b, each, context, e);
    case CONVERT_IS_PPROF: return read_pprof(path, in, each, put, context, e);
    case CONVERT_IS_OTLP: break;
    }
    return read_otlp(path, in, each, context, e);
}

int capture_file_pieces(const char *path, each_request *each, build_put *put, void *context, struct error *e)
{
    struct input in = {.buffer = BUFFER_INIT(CAPTURE_MAX + PROFILES_PADDING)};
    int r = open_input(path, &in, e);
    r = r != 0 ? r : unpack(path, &in, e);
    r = r != 0 ? r : read_any(path, &in, each, put, context, e);
    return release_input(path, &in, r, e);
}

int capture_file_requests(const char *path, each_request *each, void *context, struct error *e)
{
    return capture_file_pieces(path, each, NULL, context, e);
}

/* ---- views ---- */

struct reading {
    struct profiles view;
    int (*each)(void *context, const struct profiles *view, uint32_t request);
    void *context;
    uint32_t request;
    struct error *e;
};

static int decode(void *context, const struct capture_request *request)
{
    struct reading *reading = context;
    int r = profiles_decode_as(&reading->view, request->body, request->layout, &limits, reading->e);
    if (r != 0)
        return error_prefix(reading->e, r < 0 ? r : -EBADMSG, "%s: ", request->place);
    return reading->each(reading->context, &reading->view, reading->request++);
}

int capture_file_read(const char *path,
                      int (*each)(void *context, const struct profiles *view, uint32_t request),
                      void *context, struct error *e)
{
    struct reading reading = {.each = each, .context = context, .e = e};
    int r = profiles_init(&reading.view, NULL);
    if (r < 0)
        return error_set(e, r, "out of memory");
    r = capture_file_requests(path, decode, &reading, e);
    profiles_release(&reading.view);
    return r;
}
