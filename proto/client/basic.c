/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/client/basic.h"

#include "proto/base/base64.h"

int basic_append(struct bytes user_and_password, struct buffer *out)
{
    int r = buffer_add_str(out, "Basic ");
    return r < 0 ? r : base64_encode(user_and_password, true, out);
}
