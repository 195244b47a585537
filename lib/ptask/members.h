/* SPDX-License-Identifier: MIT
 *
 * What publish.c, members.c, requests.c, parts.c and look.c share: a named graph's members, the processes that have it open (proto/graph.h). All
 * of it is guarded by the graph's lock.
 *
 * A member's life: it comes (publish.c); says GRAPH_JOIN, and has memory; opens ends of channels; leaves, or breaks a rule, or
 * dies, which are all the end of its socket. What it had pushed by then still flows, and then its ends close. Its memory
 * stays until no datablock is there any more.
 */
#ifndef GDEV_LIB_PTASK_MEMBERS_H
#define GDEV_LIB_PTASK_MEMBERS_H

#include "lib/ptask/bell.h"
#include "lib/ptask/internal.h"
#include "lib/ptask/pool.h"
#include "proto/graph.h"

#define MEMBERS_MAX 64
#define MEMBERS_A_STRANGER 16 /* a user that is not the owner */
#define MEMBER_BYTES (256ull << 20)
#define MEMBER_BYTES_MAX (1ull << 40)
#define LANDINGS 16 /* of an end, at once */
#define TURNS_AWAKE                                                                                \
	16 /* every so many descriptors are looked at, and members told of all, though we have not slept */

/* A descriptor that the graph's thread watches. */
struct door {
	enum { DOOR_GDEVD, DOOR_AGAIN, DOOR_SOCKET, DOOR_BELL } kind;
	int fd;                /* -1: closed */
	struct member *member; /* SOCKET and BELL */
};

struct publication {
	int doors;      /* epoll */
	bool knocked;   /* there may be something at the doors */
	unsigned turns; /* each TURNS_AWAKE-th looks at all and tells all */
	struct door gdevd;
	struct door again; /* a timer: gdevd is gone, and is looked for again */
	uint64_t session;
	uint32_t user, group; /* the owner's */
	uint64_t member_bytes;
	struct list members;
	bool told;                 /* members know of the graph's error */
	unsigned objects[OPENERS]; /* that members have opened, or found, in all */
	uint64_t image_bytes;      /* of their modules */
};

enum part_kind { PART_MODULE, PART_TEMPLATE, PART_PTASK, PART_PORT, PART_CHANNEL };

/* What a member has opened (parts.c), by id - 1. */
struct part {
	struct part_object {
		enum part_kind kind;
		bool found; /* a port of others */
		void *object;
	} * objects;
	unsigned count;
	bool complete;
	bool dropped; /* the graph was run before it was */
	uint64_t image_bytes;
};

/* A channel's end that the member has opened. */
struct end {
	struct gdev_channel *channel;
	struct gdev_ptask
		*ptask;  /* of this member, elsewhere, at whose port it is; NULL: the program's */
	uint64_t number; /* of datablocks that went through it for that */
	bool sticky;
	bool pushes, closed; /* closed: by the member; what is pending still flows */
	uint32_t taken, state;
	/* Pushed, and the channel has no room yet: as many as its capacity. */
	struct gdev_datablock **pending;
	unsigned first, count;
	bool awaits;      /* it is among the channel's waiters */
	unsigned wanted;  /* datablocks that it asked for, */
	bool wants;       /* and their contents */
	struct list bare; /* struct known.link: what it has been given without, oldest first */
	bool late; /* the first is not complete: before we sleep we look again, and ask to be told */
	/* On their way from the device, oldest first (landing.c). */
	struct known *landing[LANDINGS];
	unsigned landing_first, landing_count;
};

struct member {
	struct list link; /* publication.members */
	struct gdev_graph *graph;
	uint32_t uid;
	int32_t pid;
	int proxy;                /* as of when it last pushed, or waited */
	unsigned class;           /* enum graph_class */
	struct door socket, bell; /* bell.h */
	bool left, joined;
	bool stuck; /* it sent descriptors: the socket that they came by stays open, as closing could wait for these */
	bool changed; /* something that it may wait for, in this turn */
	bool untold;  /* there is something that it has not been told of; it is before we sleep */
	struct graph_segment *segment;
	uint8_t *theirs, *ours; /* memory that it writes, and that we write for it */
	uint64_t memory_bytes;  /* of each */
	struct pool pool;       /* of `ours` */
	uint32_t requests_head, answers_tail, asleep, changes, rung;
	struct end ends[GRAPH_ENDS_MAX];
	unsigned end_count, wanted;
	struct part part;
	/* Datablocks that both know, by id. */
	struct known {
		struct member *member;
		struct gdev_datablock *block; /* the member's reference */
		bool busy;                    /* below GRAPH_IDS: its memory is in use, */
		uint64_t bytes;               /* so much of it */
		struct list link;             /* from GRAPH_IDS on: end.bare, if there is no copy */
		uint64_t offset;              /* of a copy in `ours`, */
		bool landing;        /* which is not there yet: the member does not know the id, */
		int slot;            /* and comes by way of that, */
		struct point landed; /* then */
	} known[2 * GRAPH_IDS];
	unsigned busy, held; /* ids of each kind */
	uint64_t given;      /* bytes of those that are busy: no more than the memory has */
};

/* members.c */
/* Takes the socket over. -EUSERS: there are too many, and gdevd is to keep the other end. */
int member_create(struct gdev_graph *graph, int socket, uint32_t uid, int32_t pid, unsigned class);
/* It has said something on its socket, or is gone. */
void member_heard(struct member *member);
/* It has rung, or broken the bell. */
void member_rang(struct member *member);
/* It is gone, or is to be. */
void member_leave(struct member *member);
/* Nothing refers to it. */
void member_free(struct member *member);
/* Members hear of the graph's error, once. */
void members_tell_error(struct gdev_graph *graph);
/* It looks again, if it waits: at the end of a turn, so that it wakes up once for all that the turn has changed. */
void member_notify(struct member *member);
/* The same when there is enough for it (`soon`), or nothing more happens for now. */
void member_tell(struct member *member, bool soon);
void member_answer(struct member *member, struct graph_answer answer, bool soon);

/* requests.c */
/* What GRAPH_FIND asks for; the answer is in the message. */
int member_find_end(struct member *member, struct graph_message *message);
bool member_has_requests(const struct member *member);
/* Up to so many; whether there were any. The member may have been left. */
bool member_take_requests(struct member *member, unsigned most);
/* What can go into channels, and out of them, does. Whether anything did. */
bool member_serve_ends(struct member *member);
/* Whether we shall be told of all that it waits for on the device. False: something has come meanwhile. */
bool member_watch_ends(struct member *member);
/* What it has pushed does not come into channels any more. */
void member_drop_pending(struct member *member);

/* The first datablock of the end's channel is the member's from here on, under an id; with the place of its contents. */
struct known *known_take(struct member *member, struct end *end, uint64_t offset);
/* It has pulled it. */
void known_tell(struct member *member, struct end *end, const struct known *known);

/* landing.c */
/* The contents of the first datablock of the channel are sent for, and it is taken. False: not this way. */
bool landing_begin(struct member *member, struct end *end);
/* Gives what has come to the member; of what has not, we shall be told. Whether there was anything. */
bool landings_serve(struct member *member, struct end *end);

/* parts.c */
/* What GRAPH_BUILD asks for: the answer is in the message, and `text` has GRAPH_BUILD_TEXT_MAX bytes. -EPROTO. */
int member_build(struct member *member, struct graph_message *message, char *text);
/* The member is gone; gives the lock up. */
void part_finish(struct member *member);
/* The member has left, and no end of it is open. */
void part_leave(struct member *member);
/* Its own; NULL: not of that id. */
struct gdev_channel *part_channel(const struct member *member, uint32_t id);
struct gdev_port *part_port(const struct member *member, uint32_t id);

/* publish.c */
int door_open(struct publication *publication, struct door *door);
void door_close(struct publication *publication, struct door *door);
/* Nobody watches it any more; it stays open. */
void door_leave(struct publication *publication, struct door *door);
/* Looks at what has come; whether there was anything. */
bool doors_serve(struct gdev_graph *graph);

/* look.c: fills in the answer to LOOK. */
struct graph_look {
	struct graph_message message;
	struct graph_item items[GRAPH_ITEMS_MAX];
};
void look_at(struct gdev_graph *graph, struct graph_look *look);

#endif
