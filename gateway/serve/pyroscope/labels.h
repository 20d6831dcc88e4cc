/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pyroscope's labels as attributes of a resource.
 */
#ifndef GATEWAY_SERVE_PYROSCOPE_LABELS_H
#define GATEWAY_SERVE_PYROSCOPE_LABELS_H

#include "gateway/serve/pprof/origin.h"

/* One label. service_name is service.name; those that begin with "__" are Pyroscope's own and are left out
 * (pkg/model/labels.go, IsLabelAllowedForIngestion); the others keep their names. As origin_add. */
enum refusal label_add(struct origin *o, struct bytes name, struct bytes value, struct error *why);

/* The labels in an application's name, "app{region=eu,pod=a}", as api/model/labelset/labelset.go reads it:
 * blanks around names and values go, of a label that is there twice the last one counts, what is behind the
 * brace or after no "=" is nothing. The name itself is service.name, or app_name where a label says another
 * one; it goes into *ret_app, too. */
enum refusal labels_of_name(struct origin *o, struct bytes name, struct bytes *ret_app, struct error *why);

#endif
