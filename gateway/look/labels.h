/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a series of stacks is told apart by: its type, and these attributes of its resource and sample. A
 * process's or thread's number is none of them: series would be as many as there are processes.
 */
#ifndef GATEWAY_LOOK_LABELS_H
#define GATEWAY_LOOK_LABELS_H

#include "proto/base/bytes.h"

/* Of the API; the attribute. The last is a sample's, without the digits at its end. */
#define LOOK_LABELS(X)                                                      \
    X(SERVICE, "service_name", "service.name")                              \
    X(NAMESPACE, "service_namespace", "service.namespace")                  \
    X(HOST, "host_name", "host.name")                                       \
    X(CONTAINER, "container_id", "container.id")                            \
    X(K8S_NAMESPACE, "k8s_namespace_name", "k8s.namespace.name")            \
    X(K8S_POD, "k8s_pod_name", "k8s.pod.name")                              \
    X(K8S_CONTAINER, "k8s_container_name", "k8s.container.name")            \
    X(EXECUTABLE, "process_executable_name", "process.executable.name")     \
    X(ENVIRONMENT, "deployment_environment", "deployment.environment.name") \
    X(THREAD, "thread_name", "thread.name")

/* Values are cut to so many bytes, at a character: each must fit into the address of a question, twice, with
 * every byte escaped. */
#define LOOK_LABEL_MAX 256u

enum look_label {
#define X(label, name, attribute) LOOK_##label,
    LOOK_LABELS(X)
#undef X
        LOOK_N_LABELS,
    LOOK_NO_LABEL = LOOK_N_LABELS
};

extern const struct look_label_names {
    const char *name, *attribute;
} look_labels[LOOK_N_LABELS];

/* Of one of these names, as they are or short (service, host, container, thread); LOOK_NO_LABEL. */
enum look_label look_label_of(struct bytes name);

/* The type of CPU time, whatever profilers call it. */
#define LOOK_CPU_TYPE "process_cpu:cpu:nanoseconds:cpu:nanoseconds"

#endif
