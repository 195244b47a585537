/* SPDX-License-Identifier: MIT
 *
 * What the tests of graphs share: a graph with the module of kernels.cu, and words for its parts. A call that fails fails the
 * test, with what gdev_graph_why() says.
 */
#ifndef TESTS_PTASK_FIXTURE_H
#define TESTS_PTASK_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <gdev/ptask.h>

#define N 1000
#define PATIENCE_S 120 /* for what comes for certain, on a busy machine */
#define PATIENCE_MS (1000 * PATIENCE_S)
#define SECOND_NS 1000000000ull

/* A deadline. */
uint64_t in_seconds(unsigned seconds);

extern const char kernels_ptx[];

struct fixture {
	struct gdev_graph *graph;
	struct gdev_graph *owner; /* not NULL: `graph` is attached to this one */
	struct gdev_graph_module *module;
	struct gdev_template *ints; /* N of them */
	struct gdev_template *one;  /* int */
	struct gdev_template *size; /* a uint64_t */
};

/* For cmocka: *state is a struct fixture with an open graph. */
int fixture_setup(void **state);
int fixture_teardown(void **state);
/* The graph has a name, and what the test opens is a part of it. */
int fixture_setup_attached(void **state);
/* The same, in a session of its own. */
int fixture_setup_own(void **state);
/* As setup, with options. */
struct fixture *fixture_open(const struct gdev_graph_options *options);
/* As setup, in a graph of that name, whoever owns it. */
struct fixture *fixture_attach(const char *name);
struct fixture *fixture_attach_own(const char *name);

#define good(graph, call) must((graph), (call), #call, __FILE__, __LINE__)
void must(struct gdev_graph *graph, int error, const char *call, const char *file, int line);

struct gdev_template *array_of(struct fixture *f, enum gdev_layout layout, uint64_t count);
struct gdev_ptask *function(struct fixture *f, const char *name);
struct gdev_port *input(struct gdev_ptask *ptask, struct gdev_template *tmpl, unsigned parameter);
struct gdev_port *output(struct gdev_ptask *ptask, struct gdev_template *tmpl, unsigned parameter);
struct gdev_port *port(struct gdev_ptask *ptask, struct gdev_port_options options);
struct gdev_channel *channel(struct fixture *f, struct gdev_port *from, struct gdev_port *to);
struct gdev_channel *narrow_channel(
	struct fixture *f, struct gdev_port *from, struct gdev_port *to, unsigned capacity);
void argument(struct gdev_ptask *ptask, unsigned parameter, unsigned value);

/* N values: first, first + 1, … */
void push_ints(struct fixture *f, struct gdev_channel *channel, int first);
/* All of the next N values are first + i * step. */
void pull_ints(struct fixture *f, struct gdev_channel *channel, int first, int step);

/* Skips the test where kernels are checked: what they would fault by is kept from them. */
void needs_faults(void);

/* A ptask that multiplies N values by `factor`; of datablocks that have N or more. */
struct scaler {
	struct gdev_ptask *ptask;
	struct gdev_port *in, *out;
};
struct scaler scaler(struct fixture *f, int factor);
struct scaler scaler_of(struct fixture *f, struct gdev_template *tmpl, int factor);

#endif
