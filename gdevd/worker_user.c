/* SPDX-License-Identifier: MIT
 *
 * Which user workers become, where gdevd is root: nobody else's.
 */
#include "gdevd/daemon.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "gdevd/config_values.h"

/* Neither Debian's policy nor systemd gives any of these to anybody, and all are known in a user namespace of 2^16. Not
 * 65534, which is many programs' user, and which the kernel shows for users that it cannot. */
#define NAMELESS_FIRST 65520
#define NAMELESS_LAST 65533

/* A number that names nobody. */
static uid_t nameless_user(void)
{
	uid_t uid = NAMELESS_FIRST;

	while (uid < NAMELESS_LAST && (getpwuid(uid) || getgrgid(uid)))
		uid++;
	return uid;
}

static void warn_of_nameless_user(struct worker_program *program, const char *name)
{
	snprintf(program->warning, sizeof program->warning,
		"there is no user \"%s\": workers run as uid %u, which has no name, and which another program "
		"may be given; 'useradd --system --shell /usr/sbin/nologin %s' makes one, for gdevd's next start",
		name, (unsigned)program->uid, name);
	log_warning("%s", program->warning);
}

int workers_choose_user(struct daemon *daemon)
{
	struct worker_program *program = &daemon->program;
	const char *name = daemon->config.worker_user;
	const struct passwd *user;
	const char *wanted;

	program->uid = program->gid = (uid_t)-1;
	if (geteuid() != 0)
		return 0;
	if (config_value_user(&program->uid, sizeof program->uid, name, &wanted)) {
		program->uid = nameless_user();
		warn_of_nameless_user(program, name);
	}
	user = getpwuid(program->uid);
	program->gid = user ? user->pw_gid : program->uid;
	if (program->uid)
		return 0;
	log_error("worker_user = %s: workers run what clients send, and cannot be root", name);
	return -EINVAL;
}
