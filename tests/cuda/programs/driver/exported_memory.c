/* SPDX-License-Identifier: MIT
 *
 * Memory that another process maps, by a file descriptor.
 */
#include <stdint.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "driver.h"

static void send_descriptor(int socket, int descriptor)
{
	char control[CMSG_SPACE(sizeof descriptor)] = {0}, byte = 0;
	struct iovec data = {&byte, 1};
	struct msghdr message = {.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof control};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof descriptor);
	memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
	REQUIRE(sendmsg(socket, &message, 0) == 1);
}

static int receive_descriptor(int socket)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec data = {&byte, 1};
	struct msghdr message = {.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof control};
	int descriptor;

	REQUIRE(recvmsg(socket, &message, 0) == 1 && CMSG_FIRSTHDR(&message));
	memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof descriptor);
	return descriptor;
}

static CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
	.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
	.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

static CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t bytes)
{
	CUmemAccessDesc access = {
		.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr address;

	CHECK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
	CHECK(cuMemMap(address, bytes, 0, handle, 0));
	CHECK(cuMemSetAccess(address, bytes, &access, 1));
	return address;
}

static int other(int socket, size_t bytes)
{
	CUmemGenericAllocationHandle handle;
	int count = 100, five = 5;
	CUdeviceptr data;

	begin();
	CHECK(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)receive_descriptor(socket),
		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	data = map(handle, bytes);
	LAUNCH(NULL, "add", 1, 128, &data, &count, &five);
	CHECK(cuCtxSynchronize());
	return 0;
}

int main(void)
{
	const size_t bytes = 2 << 20;
	CUmemGenericAllocationHandle handle;
	int sockets[2], descriptor, status;
	CUdeviceptr data;
	pid_t child;

	REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	child = fork();
	if (!child)
		return other(sockets[1], bytes);
	begin();
	CHECK(cuMemCreate(&handle, bytes, &properties, 0));
	data = map(handle, bytes);
	CHECK(cuMemsetD32(data, 10, 101));
	CHECK(cuCtxSynchronize());
	CHECK(cuMemExportToShareableHandle(
		&descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	send_descriptor(sockets[0], descriptor);
	REQUIRE(waitpid(child, &status, 0) == child && !status);
	REQUIRE(number_at(data, 99) == 15 && number_at(data, 100) == 10);
	return passed();
}
