#include "proto/base/buffer.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/lib/unit.h"

UNIT(grows_to_its_maximum_and_no_further)
{
    struct buffer b = BUFFER_INIT(10);
    ck_assert_int_eq(buffer_add(&b, "12345678", 8), 0);
    ck_assert_int_eq(buffer_add(&b, "abc", 3), -ENOBUFS);
    ck_assert_uint_eq(b.n, 8);
    ck_assert_int_eq(buffer_add(&b, "ab", 2), 0);
    ck_assert(bytes_is(buffer_bytes(&b), "12345678ab"));
    buffer_release(&b);
}

UNIT(consume_moves_the_rest_to_the_front)
{
    struct buffer b = {0};
    ck_assert_int_eq(buffer_printf(&b, "%d-%s", 42, "rest"), 0);
    buffer_consume(&b, 3);
    ck_assert(bytes_is(buffer_bytes(&b), "rest"));
    buffer_consume(&b, 4);
    ck_assert_uint_eq(b.n, 0);
    buffer_release(&b);
}

UNIT(take_hands_the_memory_over)
{
    struct buffer b = {0};
    size_t n;
    ck_assert_int_eq(buffer_add_str(&b, "mine"), 0);
    uint8_t *p = buffer_take(&b, &n);
    ck_assert_uint_eq(n, 4);
    ck_assert_ptr_null(b.p);
    free(p);
}
