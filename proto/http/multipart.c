/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part ends where the delimiter stands on a line of its own, so the body is searched for it, once, from
 * front to back. One that is followed by something else on its line belongs to the part.
 */
#include "proto/http/multipart.h"

#include "proto/http/query.h"

static int malformed(struct multipart *m, const char *wrong)
{
    m->wrong = wrong;
    return MULTIPART_MALFORMED;
}

/* The value of a parameter behind the first ';': a token, or a quoted string, whose backslashes are left. */
static struct bytes parameter(struct bytes field, const char *name)
{
    query_cut(&field, ';');
    while (field.n > 0) {
        const uint8_t *equals = memchr(field.p, '=', field.n);
        if (!equals)
            break;
        const struct bytes key = bytes_trim(bytes_of(field.p, (size_t)(equals - field.p)));
        struct bytes value, rest = bytes_trim(bytes_from(field, (size_t)(equals - field.p) + 1));
        if (rest.n > 0 && rest.p[0] == '"') {
            size_t end = 1;
            while (end < rest.n && rest.p[end] != '"')
                end += rest.p[end] == '\\' && end + 1 < rest.n ? 2 : 1;
            if (end >= rest.n)
                break;
            value = bytes_of(rest.p + 1, end - 1);
            field = bytes_from(rest, end + 1);
            query_cut(&field, ';');
        } else {
            value = bytes_trim(query_cut(&rest, ';'));
            field = rest;
        }
        if (bytes_is_nocase(key, name))
            return value;
    }
    return bytes_of(NULL, 0);
}

/* Behind the next delimiter; what is before it is *ret. A body begins as if a line had ended before it. */
static bool pass_delimiter(struct multipart *m, bool first, struct bytes *ret)
{
    size_t from = 0;
    if (first && m->rest.n >= m->n_delimiter - 2 &&
        memcmp(m->rest.p, m->delimiter + 2, m->n_delimiter - 2) == 0) {
        *ret = bytes_of(m->rest.p, 0);
        m->rest = bytes_from(m->rest, m->n_delimiter - 2);
        return true;
    }
    while (from < m->rest.n) {
        const uint8_t *at = memmem(m->rest.p + from, m->rest.n - from, m->delimiter, m->n_delimiter);
        if (!at)
            return false;
        size_t end = (size_t)(at - m->rest.p) + m->n_delimiter, next = end;
        while (next < m->rest.n && (m->rest.p[next] == ' ' || m->rest.p[next] == '\t'))
            next++;
        const struct bytes behind = bytes_from(m->rest, next);
        if (bytes_starts(behind, "\r\n") || bytes_starts(bytes_from(m->rest, end), "--")) {
            *ret = bytes_of(m->rest.p, (size_t)(at - m->rest.p));
            m->rest = bytes_from(m->rest, end);
            return true;
        }
        from = next;
    }
    return false;
}

int multipart_begin(struct multipart *m, struct bytes content_type, struct bytes body)
{
    const struct bytes boundary = parameter(content_type, "boundary");
    struct bytes preamble;
    *m = (struct multipart){.rest = body};
    if (boundary.n == 0 || boundary.n > MULTIPART_BOUNDARY_MAX)
        return malformed(m, "multipart/form-data needs a boundary of 1 to 70 characters");
    memcpy(m->delimiter, "\r\n--", 4);
    memcpy(m->delimiter + 4, boundary.p, boundary.n);
    m->n_delimiter = 4 + boundary.n;
    if (!pass_delimiter(m, true, &preamble))
        return malformed(m, "the boundary of the form is nowhere in it");
    return 0;
}

/* The name in the fields of a part. Lines that are no fields are passed over, as Go's reader does not but
 * browsers' servers do: nothing depends on them. */
static struct bytes name_of(struct bytes head)
{
    while (head.n > 0) {
        struct bytes line = query_cut(&head, '\n'), name;
        if (line.n > 0 && line.p[line.n - 1] == '\r')
            line.n--;
        name = query_cut(&line, ':');
        if (bytes_is_nocase(bytes_trim(name), "content-disposition"))
            return parameter(line, "name");
    }
    return bytes_of(NULL, 0);
}

int multipart_next(struct multipart *m, struct multipart_part *ret)
{
    if (bytes_starts(m->rest, "--"))
        return MULTIPART_END;
    while (m->rest.n > 0 && (m->rest.p[0] == ' ' || m->rest.p[0] == '\t'))
        m->rest = bytes_from(m->rest, 1);
    if (!bytes_starts(m->rest, "\r\n"))
        return malformed(m, "the boundary of the form is followed by something else");
    if (m->n_parts++ == MULTIPART_PARTS_MAX)
        return malformed(m, "the form has more than 64 parts");
    /* A part without fields begins with the empty line at once: the CRLF before it is the delimiter's. */
    const struct bytes within =
        bytes_of(m->rest.p, m->rest.n < MULTIPART_HEAD_MAX ? m->rest.n : MULTIPART_HEAD_MAX);
    const uint8_t *end = memmem(within.p, within.n, "\r\n\r\n", 4);
    if (!end)
        return malformed(m, "the header fields of a part do not end, or are longer than 8 KiB");
    ret->name = name_of(bytes_of(m->rest.p + 2, end > m->rest.p ? (size_t)(end - m->rest.p) - 2 : 0));
    /* The empty line's CRLF may be that of the next delimiter, where the part is empty. */
    m->rest = bytes_from(m->rest, (size_t)(end - m->rest.p) + 2);
    struct bytes body;
    if (!pass_delimiter(m, false, &body))
        return malformed(m, "the form is cut short");
    ret->body = body.n >= 2 ? bytes_from(body, 2) : bytes_of(body.p, 0);
    return 0;
}
