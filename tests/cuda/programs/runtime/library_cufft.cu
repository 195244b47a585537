/* SPDX-License-Identifier: MIT
 *
 * cuFFT: transforms of one and two dimensions, by one frequency of each.
 * nvcc -arch=compute_75 -lcufft
 */
#include <complex>
#include <cufftXt.h>
#include <vector>

#include "../program.h"

typedef std::complex<double> number;

/* The frequency (f, g) of rows by columns. */
static number frequency(const std::vector<number> &x, int rows, int columns, int f, int g)
{
	const double turn = 2 * 3.14159265358979323846;
	number sum = 0;

	for (int i = 0; i < rows; i++)
		for (int k = 0; k < columns; k++)
			sum += x[i * columns + k] *
			       std::polar(1.0,
				       -turn * ((double)f * i / rows + (double)g * k / columns));
	return sum;
}

static std::vector<number> numbers(int count, bool real)
{
	std::vector<number> x(count);

	for (int i = 0; i < count; i++)
		x[i] = {(double)(i * 7 % 13), real ? 0.0 : (double)(i % 5)};
	return x;
}

template <class T> static number transformed(cufftHandle plan, const void *in, size_t bytes, int at)
{
	void *data;
	T out;

	CHECK(cudaMalloc(&data, 2 * bytes));
	CHECK(cudaMemcpy(data, in, bytes, cudaMemcpyHostToDevice));
	CHECK(cufftXtExec(plan, data, data, CUFFT_FORWARD));
	CHECK(cudaMemcpy(&out, (T *)data + at, sizeof out, cudaMemcpyDeviceToHost));
	CHECK(cudaFree(data));
	CHECK(cufftDestroy(plan));
	return {out.x, out.y};
}

static bool near(number a, number b, double within)
{
	return std::abs(a - b) <= within;
}

static int complex_of(int rows, int columns)
{
	std::vector<number> x = numbers(rows * columns, false);
	std::vector<cufftComplex> in;
	cufftHandle plan;

	for (number v : x)
		in.push_back({(float)v.real(), (float)v.imag()});
	if (rows > 1)
		CHECK(cufftPlan2d(&plan, rows, columns, CUFFT_C2C));
	else
		CHECK(cufftPlan1d(&plan, columns, CUFFT_C2C, 1));
	int f = rows > 1 ? 3 : 0;
	number got = transformed<cufftComplex>(plan, in.data(), in.size() * 8, f * columns + 5);
	REQUIRE(near(got, frequency(x, rows, columns, f, 5), 1e-3 * rows * columns));
	return 0;
}

int main()
{
	for (int n : {8, 64, 243, 1000, 1021, 4096, 16384})
		if (complex_of(1, n))
			return 1;
	if (complex_of(64, 64) || complex_of(100, 48))
		return 1;
	for (int n : {64, 1000, 4096}) {
		std::vector<number> x = numbers(n, true), z = numbers(n, false);
		std::vector<float> real;
		cufftHandle plan;

		for (number v : x)
			real.push_back((float)v.real());
		CHECK(cufftPlan1d(&plan, n, CUFFT_R2C, 1));
		REQUIRE(near(transformed<cufftComplex>(plan, real.data(), n * 4, 3),
			frequency(x, 1, n, 0, 3), 1e-3 * n));
		CHECK(cufftPlan1d(&plan, n, CUFFT_Z2Z, 1));
		REQUIRE(near(transformed<cufftDoubleComplex>(plan, z.data(), n * 16, 3),
			frequency(z, 1, n, 0, 3), 1e-8 * n));
	}
	return passed();
}
