/* SPDX-License-Identifier: MIT
 *
 * What the two event loops of GLoop share (docs/gloop.md): the areas in page-locked memory through which blocks ask the
 * host (section 4.2 of the paper), and the kernel's first parameter. C for the host (lib/gloop), C++ for the device
 * (gloop.cuh). Programs do not use it; both sides come from one version of gdev.
 *
 * Each word is written by one side alone. The two sides' words lie in different 64-byte lines.
 *
 * A block asks: it writes the request, then `posted` of the slot, then `posted` of its line. The host answers: it writes
 * `result` and `placed`, then `done` of the slot, then `done` of the line. Each step is visible to the other side before the
 * next.
 */
#ifndef GDEV_GLOOP_RPC_H
#define GDEV_GLOOP_RPC_H

#ifdef __cplusplus
#define GLOOP_ASSERT(condition) static_assert(condition, #condition)
#else
#define GLOOP_ASSERT(condition) _Static_assert(condition, #condition)
#endif

/* Written out, since a device compiler need not have <stdint.h>. */
typedef unsigned char gloop_u8;
typedef unsigned int gloop_u32;
typedef unsigned long long gloop_u64;
typedef int gloop_s32;
typedef long long gloop_s64;

enum {
	GLOOP_SLOTS = 64,          /* of a block: callbacks that wait, and requests on the way */
	GLOOP_SLOT_BYTES = 256,    /* with all that is known of a callback */
	GLOOP_CAPTURE_BYTES = 208, /* of it, what a lambda may capture */
	GLOOP_PAGE_BYTES = 16384,  /* of a request's data, unless the host says otherwise */
	GLOOP_NO_PAGE = -1,
	GLOOP_FETCH_BYTES =
		4096, /* WRITE: the host fetches so much from its source; the block copies less sooner */
	GLOOP_PAGE_MAX = 1 << 20,
};

enum gloop_op {
	GLOOP_OPEN = 1, /* path in the page, `bytes` long, without a NUL; flags */
	GLOOP_READ,     /* fd, offset, bytes */
	GLOOP_WRITE,    /* fd, offset, bytes in the page */
	GLOOP_CLOSE,    /* fd */
	GLOOP_STAT,     /* fd; the result is the file's size */
	GLOOP_TRUNCATE, /* fd, offset: the new size */
	GLOOP_CONNECT,  /* offset: address << 16 | port */
	GLOOP_BIND,     /* as CONNECT; the result listens */
	GLOOP_ACCEPT,   /* fd */
	GLOOP_RECEIVE,  /* fd, bytes */
	GLOOP_SEND,     /* fd, bytes in the page */
	GLOOP_TIMER,    /* offset: nanoseconds */
	GLOOP_COPY,     /* destination, source, offset: how many bytes */
	GLOOP_MAP,      /* fd, offset, destination: how many bytes; the result is the address */
	GLOOP_UNMAP,    /* offset: the address */
};

enum { /* of GLOOP_OPEN */
	GLOOP_FOR_READING = 1,
	GLOOP_FOR_WRITING = 2,
	GLOOP_CREATE = 4, /* if it is not there: mode 0666 less the umask */
	GLOOP_EMPTY = 8,  /* what is in it goes */
	GLOOP_OPEN_FLAGS = 15,
};

enum gloop_placed {    /* of an answer */
	GLOOP_IN_PAGE, /* what it brings is in the page */
	GLOOP_PLACED,  /* at the destination */
	GLOOP_FILL, /* it is none: the host cannot reach the source. The block fills the page, and asks again */
};

/* A slot's request and its answer. */
struct gloop_rpc {
	gloop_u64 posted; /* device: which request this is, counted from 1 in each slot */
	gloop_u32 op;
	gloop_s32 fd;
	gloop_u64 offset, bytes;
	gloop_u32 flags;
	gloop_u32 page; /* of the block's, for the bytes; any, if there are none */
	gloop_u64
		destination; /* of a copy; in device memory, of what READ and RECEIVE bring; 0: nowhere */
	gloop_u64 source; /* of a copy; of the bytes of OPEN, WRITE and SEND */
	gloop_u64 filled; /* 1: these are in the page; 0: at the source alone */
	gloop_u64 done;   /* host: `posted` of the request that is answered */
	gloop_s64 result; /* 0 or more, or a negative errno */
	gloop_u64 placed; /* enum gloop_placed */
	gloop_u64 also_unused[5];
};
GLOOP_ASSERT(sizeof(struct gloop_rpc) == 128);
GLOOP_ASSERT(__builtin_offsetof(struct gloop_rpc, done) == 64);

enum gloop_left { /* how a block left the kernel */
	GLOOP_RUNS,
	GLOOP_ENDED,    /* no callback is left: it is never entered again */
	GLOOP_YIELDED,  /* callbacks are ready: its time was over */
	GLOOP_WAITS,    /* all callbacks wait for answers */
	GLOOP_OVERFULL, /* a callback asked for a slot, and none of the 64 was free */
};

/* A block's own. */
struct gloop_line {
	gloop_u64 posted;    /* device: requests of the block so far */
	gloop_u64 seen;      /* device: `done` as the block knew it when it left */
	gloop_u32 left;      /* device: enum gloop_left, when it has left */
	gloop_u32 launch;    /* device: the number of the launch that it has left last */
	gloop_u64 callbacks; /* device: run so far, when it has left */
	gloop_u64 unused[4];
	gloop_u64 done;  /* host: answers to the block so far */
	gloop_u64 leave; /* host: the number of the launch from which the block is to come back */
	gloop_u64 also_unused[6];
};
GLOOP_ASSERT(sizeof(struct gloop_line) == 128);
GLOOP_ASSERT(__builtin_offsetof(struct gloop_line, done) == 64);

/* A callback, in device memory. */
struct gloop_slot {
	gloop_s64 callback; /* where its code is, from gloop::detail::anchor() */
	gloop_u64
		destination; /* where the answer's bytes go from the page; 0: nowhere, or they are there */
	gloop_u64 bytes;    /* at most so many */
	gloop_u64 posted;   /* its requests so far; if it waits, it waits for the last of them */
	gloop_s64 result;   /* of the request that was answered */
	gloop_s32 page;     /* that it holds until its callback runs, or GLOOP_NO_PAGE */
	gloop_u32 receives; /* 1: it asks for RECEIVE */
	gloop_u8 captures[GLOOP_CAPTURE_BYTES];
};
GLOOP_ASSERT(sizeof(struct gloop_slot) == GLOOP_SLOT_BYTES);

/* A block's event loop, in device memory, zeroed before the first launch: all that outlives a launch. Bit n of a set
 * is slot n. */
struct gloop_state {
	gloop_u64 used;    /* has a callback */
	gloop_u64 waiting; /* of them: for an answer, */
	gloop_u64 starved; /* and to ask, for a page or to fill it; the others are ready */
	gloop_u64 pages;   /* bit n: page n is held */
	gloop_u64 answers; /* `done` of the line, as it was last looked at */
	gloop_u64 posted;  /* as in the line */
	gloop_u64 callbacks;
	gloop_u32
		next; /* the search for a ready callback begins at this slot, so that each gets its turn, */
	gloop_u32 next_starved; /* and that for one that gets a page */
	gloop_u32 begun, ended, overfull;
	gloop_u32 also_unused;
	gloop_u64 unused[22];
	struct gloop_slot slots[GLOOP_SLOTS];
};
GLOOP_ASSERT(sizeof(struct gloop_state) == 256 + GLOOP_SLOTS * GLOOP_SLOT_BYTES);

/* What the blocks of a kernel know of each other, in device memory. */
struct gloop_crowd {
	gloop_u32 begun; /* how often one has begun, in all launches */
	/* The number of the last launch that one has left with callbacks ready; or, in blocking mode, with callbacks. */
	gloop_u32 left;
	gloop_u32 working; /* how many are on the device and have something to do */
};

/* The first parameter of a kernel that gloop_run() launches. Arrays have an element a block; of slots, 64 a block; of pages,
 * `page_count`, 2 to 64. */
struct gloop_grid {
	struct gloop_state *states;
	struct gloop_line *lines;
	struct gloop_rpc *rpcs;
	gloop_u8 *pages;
	gloop_u64 page_bytes;
	/* After each such time, at the next boundary of callbacks, a block leaves unless it stays, if another block of the
	 * kernel may need its place, or if the host says so (gloop_line.leave). */
	gloop_u64 slice_ns;
	gloop_u64
		poll_ns; /* a block with nothing ready leaves when it has been so for so long, unless others keep the device */
	gloop_u32 page_count;
	gloop_u32
		fetches; /* 1: the host fetches what is written from its source, while the kernel is not on the device */
	struct gloop_crowd *crowd;
	gloop_u32 launch; /* this one's number, counted from 1 */
	gloop_u32 block_count;
	gloop_u32 stays; /* 1: the host looks for requests meanwhile */
	gloop_u32 fits;  /* 1: and the device can hold all blocks at once */
};
GLOOP_ASSERT(sizeof(struct gloop_grid) == 88);

#endif
