/* SPDX-License-Identifier: MIT
 *
 * BP: trains a neural network of n inputs, 16 hidden units and one output by back propagation. The
 * device does the large layer, the host the small one, so that every step copies between them.
 */
#include "common/harness.h"

#include <math.h>
#include <string.h>

#define HIDDEN 16
#define INPUTS 16
#define EPOCHS 4
#define RATE 0.3f
#define MOMENTUM 0.3f
#define TARGET 0.9f

static unsigned n;
static size_t weight_count;
static float *input, *weights, *previous, *partial, *trained;
static float output_weights[HIDDEN];
static CUdeviceptr device_input, device_weights, device_previous, device_partial, device_delta;

static void setup(void)
{
	n = options.size;
	weight_count = (size_t)n * HIDDEN;
	input = random_floats(n, 0, 1);
	weights = random_floats(weight_count, -1 / (float)n, 1 / (float)n);
	for (unsigned u = 0; u < HIDDEN; u++)
		output_weights[u] = random_float(-1, 1);
	previous = host_alloc(weight_count * sizeof(*previous));
	memset(previous, 0, weight_count * sizeof(*previous));
	partial = host_alloc(n / INPUTS * HIDDEN * sizeof(*partial));
	trained = host_alloc(weight_count * sizeof(*trained));
	device_input = device_alloc(n * sizeof(*input));
	device_weights = device_alloc(weight_count * sizeof(*weights));
	device_previous = device_alloc(weight_count * sizeof(*previous));
	device_partial = device_alloc(n / INPUTS * HIDDEN * sizeof(*partial));
	device_delta = device_alloc(HIDDEN * sizeof(float));
}

static float squash(float x)
{
	return 1 / (1 + expf(-x));
}

/* The small layer: from what each hidden unit received, the error of each; adjusts `out`. */
static void small_layer(const float *received, float *out, float *delta)
{
	float hidden[HIDDEN], sum = 0, answer, error;

	for (unsigned u = 0; u < HIDDEN; u++) {
		hidden[u] = squash(received[u]);
		sum += hidden[u] * out[u];
	}
	answer = squash(sum);
	error = answer * (1 - answer) * (TARGET - answer);
	for (unsigned u = 0; u < HIDDEN; u++) {
		delta[u] = hidden[u] * (1 - hidden[u]) * error * out[u];
		out[u] += RATE * error * hidden[u];
	}
}

static void compute(void)
{
	CUfunction forward = device_kernel("bp_forward"), adjust = device_kernel("bp_adjust");
	unsigned blocks = n / INPUTS;
	float out[HIDDEN], rate = RATE, momentum = MOMENTUM;

	memcpy(out, output_weights, sizeof(out));
	copy_to_device(device_input, input, n * sizeof(*input));
	copy_to_device(device_weights, weights, weight_count * sizeof(*weights));
	copy_to_device(device_previous, previous, weight_count * sizeof(*previous));
	for (unsigned epoch = 0; epoch < EPOCHS; epoch++) {
		float received[HIDDEN] = {0}, delta[HIDDEN];

		launch(forward, SHAPE(blocks, 1, HIDDEN, INPUTS), &device_partial, &device_input,
			&device_weights);
		copy_from_device(partial, device_partial, blocks * HIDDEN * sizeof(*partial));
		for (unsigned b = 0; b < blocks; b++)
			for (unsigned u = 0; u < HIDDEN; u++)
				received[u] += partial[b * HIDDEN + u];
		small_layer(received, out, delta);
		copy_to_device(device_delta, delta, sizeof(delta));
		launch(adjust, SHAPE(blocks, 1, HIDDEN, INPUTS), &device_weights, &device_previous,
			&device_input, &device_delta, &rate, &momentum);
		device_wait();
		progress(epoch + 1, EPOCHS);
	}
	copy_from_device(trained, device_weights, weight_count * sizeof(*trained));
}

static void check(void)
{
	float *w = host_alloc(weight_count * sizeof(*w));
	float *p = host_alloc(weight_count * sizeof(*p));
	float out[HIDDEN];

	memcpy(out, output_weights, sizeof(out));
	memcpy(w, weights, weight_count * sizeof(*w));
	memcpy(p, previous, weight_count * sizeof(*p));
	for (unsigned epoch = 0; epoch < EPOCHS; epoch++) {
		double sum[HIDDEN] = {0};
		float received[HIDDEN], delta[HIDDEN];

		for (unsigned i = 0; i < n; i++)
			for (unsigned u = 0; u < HIDDEN; u++)
				sum[u] += w[(size_t)i * HIDDEN + u] * input[i];
		for (unsigned u = 0; u < HIDDEN; u++)
			received[u] = (float)sum[u];
		small_layer(received, out, delta);
		for (size_t i = 0; i < weight_count; i++) {
			float change =
				RATE * delta[i % HIDDEN] * input[i / HIDDEN] + MOMENTUM * p[i];

			w[i] += change;
			p[i] = change;
		}
	}
	check_floats("the weights", trained, w, weight_count, 1e-4f);
}

const struct program program = {
	.name = "bp",
	.summary = "Trains a neural network by back propagation.",
	.size_means = "inputs of the network; a multiple of 16",
	.size = 65536,
	.size_max = 16u << 20,
	.multiple = INPUTS,
	.setup = setup,
	.compute = compute,
	.check = check,
};
