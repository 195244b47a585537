/* SPDX-License-Identifier: MIT
 *
 * Events of several processes. What they share is a page in a memfd: the number under which the event was
 * recorded last (gdev_event_share), and by which process. A handle says where the memfd is found, in the /proc of the
 * process that made the event; so nothing is left behind when the processes are gone, a process must have
 * the right to look into the other's /proc (the same user), and the maker must live when it is opened.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "lib/cuda/internal.h"

#define PAGE_MAGIC 0x67646576u /* "gdev" */
#define PAGE_BYTES 4096

struct event_page {
	uint32_t magic, reserved;
	_Atomic uint64_t shared;  /* of the last record; 0: never recorded */
	_Atomic uint64_t session; /* that recorded it */
};

/* What is in a CUipcEventHandle. */
struct event_handle {
	uint32_t magic, pid;
	int32_t fd;
	uint32_t reserved;
	uint64_t inode; /* the descriptor's number may be another file's by now */
};

_Static_assert(sizeof(struct event_handle) <= sizeof(CUipcEventHandle), "fits");

static CUresult map_page(CUevent event, int fd)
{
	void *page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		return fail(
			CUDA_ERROR_OPERATING_SYSTEM, "the page of the event cannot be mapped: %m");
	event->page = page;
	event->page_fd = fd;
	return CUDA_SUCCESS;
}

CUresult event_page_create(CUevent event)
{
	int fd = fd_shared_memory("gdev-event", PAGE_BYTES);
	CUresult result;

	if (fd < 0)
		return fail(CUDA_ERROR_OPERATING_SYSTEM, "a page for the event cannot be made: %s",
			strerror(-fd));
	result = map_page(event, fd);
	if (result != CUDA_SUCCESS)
		close(fd);
	else
		event->page->magic = PAGE_MAGIC;
	return result;
}

void event_page_release(CUevent event)
{
	if (!event->page)
		return;
	gdev_stream_destroy(event->watcher);
	munmap(event->page, PAGE_BYTES);
	close(event->page_fd);
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
	struct event_handle ours = {.magic = PAGE_MAGIC};
	struct stat status;

	TRY(initialised());
	if (!handle || !event)
		return fail(CUDA_ERROR_INVALID_VALUE, "handle or event is NULL");
	if (!handle_is(HANDLE_EVENT, event) || !event->page)
		return fail(CUDA_ERROR_INVALID_HANDLE,
			"%p is no living event, or was not made with CU_EVENT_INTERPROCESS",
			(void *)event);
	if (fstat(event->page_fd, &status))
		return fail(CUDA_ERROR_OPERATING_SYSTEM,
			"the page of the event cannot be looked at: %m");
	ours.pid = (uint32_t)getpid();
	ours.fd = event->page_fd;
	ours.inode = status.st_ino;
	memset(handle, 0, sizeof *handle);
	memcpy(handle, &ours, sizeof ours);
	return CUDA_SUCCESS;
}

static int open_page(const struct event_handle *handle)
{
	struct stat status;
	uint64_t bytes;
	char path[64];
	int fd;

	snprintf(path, sizeof path, "/proc/%u/fd/%d", handle->pid, handle->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &status) || status.st_ino != handle->inode ||
			       fd_shared_memory_size(fd, &bytes) || bytes != PAGE_BYTES)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

CUresult cuIpcOpenEventHandle(CUevent *created, CUipcEventHandle given)
{
	struct event_handle handle;
	CUcontext context;
	CUevent event;
	CUresult result;
	int fd;

	TRY(current_context(&context));
	if (!created)
		return fail(CUDA_ERROR_INVALID_VALUE, "the pointer for the event is NULL");
	memcpy(&handle, &given, sizeof handle);
	if (handle.magic != PAGE_MAGIC || handle.fd < 0)
		return fail(CUDA_ERROR_MAP_FAILED, "the handle is none of cuIpcGetEventHandle");
	if (handle.pid == (uint32_t)getpid()) /* as CUDA: not in the process that made it */
		return fail(CUDA_ERROR_INVALID_CONTEXT,
			"as in CUDA, an event is not opened in the process that made it");
	fd = open_page(&handle);
	if (fd < 0)
		return fail(CUDA_ERROR_INVALID_HANDLE,
			"the event is gone with the process that made it, or that process is "
			"another user's");
	result = event_create(context, CU_EVENT_DISABLE_TIMING, &event);
	if (result != CUDA_SUCCESS) {
		close(fd);
		return result;
	}
	event->flags |= CU_EVENT_INTERPROCESS;
	result = map_page(event, fd);
	if (result == CUDA_SUCCESS && event->page->magic != PAGE_MAGIC)
		result = fail(CUDA_ERROR_INVALID_HANDLE,
			"the file that the handle names is no event any more");
	if (result != CUDA_SUCCESS) {
		if (!event->page)
			close(fd);
		event_release(event);
		return result;
	}
	*created = event;
	return CUDA_SUCCESS;
}

static uint64_t session_number(CUevent event)
{
	return gdev_session_description(event->context->session)->session;
}

CUresult event_page_publish(CUevent event)
{
	uint64_t id;

	if (!event->page)
		return CUDA_SUCCESS;
	TRY_GDEV(gdev_event_share(event->event, &id), "the event cannot be shared");
	atomic_store(&event->page->session, session_number(event));
	atomic_store(&event->page->shared, id);
	return CUDA_SUCCESS;
}

bool event_is_foreign(CUevent event)
{
	return event->page && atomic_load(&event->page->shared) &&
	       atomic_load(&event->page->session) != session_number(event);
}

CUresult event_wait_foreign(CUevent event, CUstream stream)
{
	return result_of(gdev_stream_wait_shared(stream->stream, atomic_load(&event->page->shared)),
		"the stream cannot wait for the other process");
}

/* Another stream waits for it, and that one is asked. */
CUresult event_look_foreign(CUevent event, bool wait)
{
	uint64_t shared = atomic_load(&event->page->shared);

	if (!event->watcher)
		TRY_GDEV(gdev_stream_create(event->context->session, 0, &event->watcher),
			"a stream to wait for the other process cannot be made");
	if (event->watched != shared) {
		TRY_GDEV(gdev_stream_wait_shared(event->watcher, shared),
			"the other process cannot be waited for");
		event->watched = shared;
	}
	return result_of(
		wait ? gdev_stream_sync(event->watcher) : gdev_stream_query(event->watcher),
		"the other process's work before the event is not done");
}
