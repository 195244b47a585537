/* SPDX-License-Identifier: MIT
 *
 * The arbiter: which session uses one resource (compute, or copies in one direction) of one device, and for how
 * long. One struct sched a resource, one struct sched_group a virtual GPU and resource, one struct
 * sched_entity a session and resource.
 *
 * There are two levels, and a policy serves either: it arbitrates among the nodes of a queue. The nodes
 * of sched->groups are the groups, whose weight is their share in percent; the nodes of group->members are
 * the entities, whose weight comes from their nice value. First a group is picked, then one of its entities.
 *
 * The arbiter keeps the rules that every policy shares: one holder at a time; the holder is left alone
 * while nobody waits; when somebody does, it is asked to leave as soon as it is idle, and told to leave
 * when either level's policy says that its time is over; a holder that has not left 100 ms after that
 * is overdue, and the next one is granted anyway; a strict group gets no more than its share of the time,
 * although the resource be idle. The policies alone say which is next, and are told what each used.
 *
 * Entities of one process are a gang: what one has on the device may wait for what another has there. When one of them
 * is granted the resource, those that wait for it, or come while it holds, go along. They are told to leave when it is;
 * and when it leaves, one of them is the holder in its place, for what is left of the turn. To policies the turn is that
 * of the group whose entity was granted the resource. An entity that goes along neither waits nor holds nor pauses, and
 * its own group is charged for what it uses. It does not go along if its group is strict, or past others that wait in
 * its group.
 *
 * Pure: time comes in as an argument, actions go out through ops, nothing blocks or allocates. The
 * whole is driven by the daemon's one thread (grants.c), or by a test's table of events.
 */
#ifndef GDEV_GDEVD_SCHED_H
#define GDEV_GDEVD_SCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "proto/control.h"

#define SCHED_OVERDUE_NS (100ull * 1000 * 1000)
/* Others wait so long at most for a holder that prepares. */
#define SCHED_KEPT_NS (60ull * 1000 * 1000 * 1000)
#define SCHED_NODE_BYTES 96  /* of a policy's own, in a node */
#define SCHED_QUEUE_BYTES 64 /* … and in a queue */
#define SCHED_SETTINGS 4

/* What contends in a queue: a group or an entity. All members are the arbiter's to write, but `private`. */
struct sched_node {
	struct list link; /* queue->nodes, as long as it exists; the policy may reorder that list */
	struct list wait; /* queue->waiting, while it waits */
	unsigned weight;  /* never 0 */
	int priority;     /* of the virtual GPU, higher first; 0 for an entity */
	int nice; /* of the last request; a group's is the best of its entities that want the resource */
	uint64_t waiting_since_ns;
	uint64_t used_ns;                            /* device time ever charged */
	_Alignas(16) char private[SCHED_NODE_BYTES]; /* the policy's, zeroed when the node is new */
};

struct sched_queue {
	struct sched *sched;
	const struct sched_policy *policy;
	int64_t settings[SCHED_SETTINGS]; /* in the order of policy->settings */
	uint64_t quantum_ns;              /* what a holder should have when others wait */
	uint64_t switch_ns;               /* what a handover costs the device, messages included */
	unsigned whole;             /* the weight that is all of the resource; 0: the nodes' sum */
	struct list nodes, waiting; /* waiting: longest first; the holder is not in it */
	struct sched_node *holder;  /* NULL: none of these nodes */
	struct sched_node *last;    /* held it last; NULL: none, or it is gone */
	uint64_t granted_ns;
	/* A node that came since then was not there when the holder was chosen. */
	uint64_t chosen_ns;
	bool contended;                               /* somebody waits while one holds, */
	uint64_t contended_since_ns;                  /* since then, */
	uint64_t contended_ns;                        /* and earlier in this hold so long */
	_Alignas(16) char private[SCHED_QUEUE_BYTES]; /* the policy's, zeroed */
};

struct sched_setting {
	const char *name; /* with its unit: "wait_us" */
	int64_t value;    /* the default */
};

/* One file a policy, and its name below and in registry.c. Only name and pick are required. None of them may call
 * the arbiter back, block, allocate or read a clock; all see the queue in its new state. */
struct sched_policy {
	const char *name;
	bool everyone; /* among groups: everyone has the resource at once, and nothing else here is used */
	/* Counts in parts of all time: among the entities of a group, which has only some of it, the first
	 * would be served for ever. */
	bool groups_only;
	struct sched_setting settings[SCHED_SETTINGS];
	/* Sets up queue->private. */
	void (*init)(struct sched_queue *queue);
	/* The node wants the resource, and is in queue->waiting. */
	void (*arrive)(struct sched_queue *queue, struct sched_node *node, uint64_t now_ns);
	/* The node waited or held, and does not want the resource any more for the time being. */
	void (*pause)(struct sched_queue *queue, struct sched_node *node, uint64_t now_ns);
	/* The resource is free, and nodes wait: which of queue->waiting gets it? NULL: none yet; ask
	 * again at the next event, or at *again_ns (UINT64_MAX when called) if that is sooner. */
	struct sched_node *(*pick)(struct sched_queue *queue, uint64_t now_ns, uint64_t *again_ns);
	/* The node that pick would choose if queue->holder left now; NULL: that is not certain. Changes nothing.
	 * Without it the holder does not know to which to hand over, and each handover goes through gdevd. */
	struct sched_node *(*next)(struct sched_queue *queue, uint64_t now_ns);
	/* When queue->holder has to leave, as things are; asked after every event, so that it may become
	 * sooner or later. UINT64_MAX: not at all. Without it: a quantum after the grant, when somebody waits. */
	uint64_t (*until)(struct sched_queue *queue, uint64_t now_ns);
	/* A node has used the resource, and leaves it: `used_ns` of device time in all, `contended_ns`
	 * of it while another node of the queue waited; the rest it took from nobody. */
	void (*charge)(struct sched_queue *queue, struct sched_node *node, uint64_t used_ns,
		uint64_t contended_ns, uint64_t now_ns);
	/* node->weight was `old` until now. */
	void (*weigh)(
		struct sched_queue *queue, struct sched_node *node, unsigned old, uint64_t now_ns);
};

/* A virtual GPU's part of a resource. */
struct sched_group {
	struct sched_node node;
	struct sched *sched;
	struct sched_queue members;
	bool strict;
	int64_t allowance_ns;     /* strict: what it may use by now; never more than a quantum, */
	uint64_t allowance_at_ns; /* as of then */
	uint64_t strict_since_ns; /* what was used before counts for nothing */
	unsigned along;           /* of its entities go along with another's */
	bool spent;               /* nearly all of it, and half a quantum is not there again */
	uint64_t not_before_ns;   /* its policy has nobody for now */
};

enum entity_state {
	ENTITY_IDLE,
	ENTITY_WAITING,
	ENTITY_HOLDING,
	ENTITY_OVERDUE, /* lost the resource, and has not said that it left */
};

struct sched_entity {
	struct sched_node node;
	struct sched_group *group;
	struct list gang; /* a ring of those of its process */
	enum entity_state state;
	bool along; /* has the resource because another of its gang holds it */
	bool again; /* overdue, and asked for the resource again */
	uint64_t granted_ns;
	uint64_t overdue_from_ns; /* overdue: others have waited for it since, */
	uint64_t passed_over_ns;  /* and not any more since then */
};

/* What the arbiter makes happen. None may call the arbiter back. */
struct sched_ops {
	void (*grant)(struct sched *sched, struct sched_entity *entity);
	void (*revoke)(struct sched *sched, struct sched_entity *entity, enum worker_revoke how);
	/* Optional. The holder was told to leave now, and this one waits: it may be next. */
	void (*prepare)(struct sched *sched, struct sched_entity *entity);
	/* Optional. The holder is to leave, and to hand over to this entity itself when it does (NULL: to none), and
	 * not any more to the entity that was named before. False: it has handed over to that already. Called before
	 * the holder is told. */
	bool (*name)(struct sched *sched, struct sched_entity *entity);
	/* Optional. What the holder has used of the resource since it was granted, and may be using now; at most
	 * all of the time, which it is without this. */
	uint64_t (*used_ns)(struct sched *sched, struct sched_entity *holder, uint64_t now_ns);
};

struct sched {
	unsigned index; /* the owner's: which resource this is */
	const struct sched_ops *ops;
	struct sched_queue groups;
	struct sched_entity *holder; /* NULL: idle, or everyone's */
	bool parted;                 /* nobody goes along until the next grant */
	enum worker_revoke revoked;  /* what the holder was told */
	struct sched_entity *named;  /* the entity to which it hands over; NULL: none is named */
	/* When the arbiter saw that the holder has handed over, which stays the holder until it says so; 0: it has not. */
	uint64_t handed_ns;
	/* The entity to which a holder that has left handed over, until it is granted the resource. */
	struct sched_entity *heir;
	uint64_t granted_ns, revoked_ns;
	uint64_t kept_until_ns; /* see sched_keep() */
	uint64_t next_ns;       /* see sched_next_ns() */
};

void sched_init(struct sched *sched, const struct sched_policy *policy, const struct sched_ops *ops,
	uint64_t quantum_ns, uint64_t switch_ns);

/* `policy`: among its entities; a strict group is never lent what others leave idle. Shares that add up
 * to more than 100 are parts of their sum. */
void sched_group_add(struct sched *sched, struct sched_group *group,
	const struct sched_policy *policy, unsigned share_pct, int priority, bool strict,
	uint64_t now_ns);
void sched_group_change(
	struct sched_group *group, unsigned share_pct, int priority, bool strict, uint64_t now_ns);
/* The group has no entities any more. */
void sched_group_remove(struct sched_group *group);

void sched_entity_add(struct sched_group *group, struct sched_entity *entity);
/* The entity joins the gang of the other, which may be in another group. */
void sched_entity_join(struct sched_entity *entity, struct sched_entity *other);
/* What an entity that has the resource was told; REVOKE_NONE: nothing, or it does not have it. */
enum worker_revoke sched_told(const struct sched_entity *entity);
/* The entity's session is gone. */
void sched_entity_remove(struct sched_entity *entity, uint64_t now_ns);

/* The nice value of the thread that asks through the entity has changed. */
void sched_renice(struct sched_entity *entity, int nice, uint64_t now_ns);
/* The entity wants the resource. Twice, or while it holds it, is no news but for the nice value. */
void sched_acquire(struct sched_entity *entity, int nice, uint64_t now_ns);
/* The entity left the resource after `used_ns` of device time; `wants`: and waits for it again. A
 * release of what is not held charges, and is otherwise ignored. */
void sched_release(struct sched_entity *entity, uint64_t used_ns, bool wants, uint64_t now_ns);
/* The least that a release now would charge, whatever the worker says: a part of the time for which the entity has
 * kept others waiting. */
uint64_t sched_least_ns(const struct sched_entity *entity, uint64_t now_ns);
/* Others have used the resource for so long on behalf of the entity, which need not hold it. */
void sched_charge(struct sched_entity *entity, uint64_t used_ns, uint64_t now_ns);
/* The holder is not told before `until_ns` that its time is over: preparing what it was given the resource for takes
 * so long that a shorter turn would not be worth it. That it prepares is its word, so others wait SCHED_KEPT_NS for
 * that at most. It is still asked to leave when it is idle. Nothing happens if the entity does not hold the resource,
 * or has been told already. */
void sched_keep(struct sched_entity *entity, uint64_t until_ns);
/* The resource is the holder's alone until the next grant: those that go along are told to leave. */
void sched_part(struct sched *sched);
/* Whether somebody waits for what another holds. */
bool sched_is_contended(const struct sched *sched);
/* Whether the entity ranks above the other. */
bool sched_outranks(const struct sched_entity *entity, const struct sched_entity *other);
/* Time has passed. Harmless at any time. */
void sched_tick(struct sched *sched, uint64_t now_ns);
/* When sched_tick() has something to do; UINT64_MAX: not before another event. */
uint64_t sched_next_ns(const struct sched *sched);

/* Another policy among groups, or among the entities of one, from now on: it begins with what is known of
 * nobody, and with its settings' defaults. */
void sched_set_policy(struct sched *sched, const struct sched_policy *policy, uint64_t now_ns);
void sched_group_set_policy(
	struct sched_group *group, const struct sched_policy *policy, uint64_t now_ns);
/* On both levels. */
void sched_set_times(struct sched *sched, uint64_t quantum_ns, uint64_t switch_ns, uint64_t now_ns);

/* A setting of the queue's policy. -ENOENT: it has none of that name. */
int sched_queue_set(struct sched_queue *queue, const char *name, int64_t value);

/* ---- weight.c ---- */

/* As Linux weighs processes: 1024 for 0, and one step is 1.25 times. */
unsigned sched_weight(int nice);

/* ---- for policies ---- */

/* Of two nodes, the one of higher rank goes first. */
static inline int sched_rank(const struct sched_node *node)
{
	return node->priority - node->nice;
}

/* The node's part of the resource, 0 to 1. */
double sched_fraction(const struct sched_queue *queue, const struct sched_node *node);
/* How long, of the present hold, another node has waited. */
uint64_t sched_contended_ns(const struct sched_queue *queue, uint64_t now_ns);
/* What the holder has used of the present hold, the handover included, as far as that is known; 0: nobody holds. */
uint64_t sched_taken_ns(const struct sched_queue *queue, uint64_t now_ns);
/* The longest waiting; NULL: nobody waits. */
struct sched_node *sched_first(const struct sched_queue *queue);

/* ---- policies, each in the file of its name; registry.c ---- */

extern const struct sched_policy sched_null, sched_fifo, sched_priority, sched_credit, sched_band,
	sched_token, sched_effective, sched_interactive, sched_fair;

/* NULL: there is no policy of that name. */
const struct sched_policy *sched_policy_find(const char *name);
/* The policies in order; NULL: no more. */
const struct sched_policy *sched_policy_at(unsigned index);
/* The policy that arbitrates among entities when `policy` does among groups and nothing else is said. */
const struct sched_policy *sched_policy_members(const struct sched_policy *policy);

#endif
