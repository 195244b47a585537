/* SPDX-License-Identifier: MIT
 *
 * An object of the program that a graph keeps alive, and whose destructor runs with the last of its graphs.
 */
#include "driver.h"

static void destroy(void *data)
{
	*(volatile int *)data = 1;
}

int main(void)
{
	static volatile int destroyed;
	CUuserObject object;
	CUgraphExec launchable;
	CUgraph graph;

	begin();
	CHECK(cuUserObjectCreate(
		&object, (void *)&destroyed, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	CHECK(cuGraphCreate(&graph, 0));
	CHECK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
	CHECK(cuGraphInstantiate(&launchable, graph, 0));
	CHECK(cuGraphDestroy(graph));
	CHECK(cuGraphLaunch(launchable, NULL));
	CHECK(cuStreamSynchronize(NULL));
	REQUIRE(!destroyed);
	CHECK(cuGraphExecDestroy(launchable));
	for (int i = 0; i < 1000 && !destroyed; i++)
		CHECK(cuCtxSynchronize());
	REQUIRE(destroyed);
	return passed();
}
