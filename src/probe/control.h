/* Probes of control groups. Limits are tried by making a group in each place
 * where one may be made, writing the limit, moving a child in, and removing it. */
#pragma once
#include "probe/probe.h"

probe_fn control_probe_version; /* v2, v1, hybrid or none */
probe_fn control_probe_limit;   /* `with` names the controller */
probe_fn control_probe_pids;    /* is their number, by a group or else by RLIMIT_NPROC */
probe_fn control_probe_swap;    /* is swap held to a limit too */
