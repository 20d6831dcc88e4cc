/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/client/basic.h"

#include "proto/grpc/text.h"

int basic_append(struct bytes user_and_password, struct buffer *out)
{
    int r = buffer_add_str(out, "Basic ");
    if (r == 0)
        r = grpc_base64_encode(user_and_password, out);
    for (size_t pad = (3 - user_and_password.n % 3) % 3; r == 0 && pad > 0; pad--) /* it writes none */
        r = buffer_add_str(out, "=");
    return r;
}
