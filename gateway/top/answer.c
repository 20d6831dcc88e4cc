/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/top/answer.h"

#include <math.h>

json_object *answer_parse(struct bytes text, int depth_max)
{
    json_tokener *tokener = text.n <= INT32_MAX ? json_tokener_new_ex(depth_max) : NULL;
    if (!tokener)
        return NULL;
    json_object *root = json_tokener_parse_ex(tokener, (const char *)text.p, (int)text.n);
    json_tokener_free(tokener);
    return root;
}

json_object *answer_member(json_object *of, const char *name, enum json_type type)
{
    json_object *found = NULL;
    if (!json_object_is_type(of, json_type_object) || !json_object_object_get_ex(of, name, &found))
        return NULL;
    return json_object_is_type(found, type) ? found : NULL;
}

uint32_t answer_length(json_object *list)
{
    const size_t n = list ? json_object_array_length(list) : 0;
    return n < UINT32_MAX ? (uint32_t)n : 0;
}

double answer_number(json_object *value)
{
    const bool is_number =
        json_object_is_type(value, json_type_int) || json_object_is_type(value, json_type_double);
    return is_number ? json_object_get_double(value) : NAN;
}
