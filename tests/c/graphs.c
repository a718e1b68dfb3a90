/* Graph and distributed graph topologies: making, asking, orders, weights, duplicates, errors. */
#include "check.h"

static int kind(MPI_Comm comm)
{
    int status = 0;
    OK(MPI_Topo_test(comm, &status));
    return status;
}

/* The graph of all processes in which node n has n % 3 edges to itself, an edge to the next and an edge to the first node. */
static int describe(int nodes, int *index, int *edges)
{
    int number = 0;
    for (int node = 0; node < nodes; node++) {
        for (int i = 0; i < node % 3; i++)
            edges[number++] = node;
        edges[number++] = (node + 1) % nodes;
        edges[number++] = 0;
        index[node] = number;
    }
    return number;
}

static void says(MPI_Comm comm, int nodes, const int *index, const int *edges)
{
    int number, links, list[256], ends[64];
    SAME(kind(comm), MPI_GRAPH, "MPI_Topo_test");
    OK(MPI_Graphdims_get(comm, &number, &links));
    SAME(number, nodes, "nodes");
    SAME(links, index[nodes - 1], "edges");
    OK(MPI_Graph_get(comm, 64, 256, ends, list));
    for (int node = 0; node < nodes; node++)
        SAME(ends[node], index[node], "index[%d]", node);
    for (int i = 0; i < links; i++)
        SAME(list[i], edges[i], "edges[%d]", i);
    for (int node = 0; node < nodes; node++) {
        int start = node == 0 ? 0 : index[node - 1], neighbours[8] = {-7, -7, -7, -7, -7, -7, -7, -7};
        OK(MPI_Graph_neighbors_count(comm, node, &number));
        SAME(number, index[node] - start, "neighbours of node %d", node);
        OK(MPI_Graph_neighbors(comm, node, 8, neighbours));
        for (int i = 0; i < 8; i++)
            SAME(neighbours[i], i < number ? edges[start + i] : -7, "neighbour %d of node %d", i, node);
        neighbours[1] = -7;
        OK(MPI_Graph_neighbors(comm, node, 1, neighbours));
        SAME(neighbours[1], -7, "behind the end of a shorter array");
    }
}

static void graphs(void)
{
    int index[64], edges[256];
    for (int nodes = 0; nodes <= ranks; nodes++)
        for (int reorder = 0; reorder < 2; reorder++) {
            describe(nodes, index, edges);
            MPI_Comm comm, twin;
            OK(MPI_Graph_create(MPI_COMM_WORLD, nodes, index, edges, reorder, &comm));
            SAME(comm != MPI_COMM_NULL, me < nodes, "a node for the first %d", nodes);
            int mapped = -1, rank = MPI_UNDEFINED;
            if (comm != MPI_COMM_NULL) {
                says(comm, nodes, index, edges);
                OK(MPI_Comm_rank(comm, &rank));
                OK(MPI_Comm_dup(comm, &twin));
                OK(MPI_Comm_free(&comm));
                says(twin, nodes, index, edges);
                OK(MPI_Comm_free(&twin));
            }
            OK(MPI_Graph_map(MPI_COMM_WORLD, nodes, index, edges, &mapped));
            if (reorder)
                SAME(mapped, rank, "MPI_Graph_map");
        }
}

static void graph_errors(void)
{
    int index[64], edges[256], number = 0;
    MPI_Comm none, comm;
    describe(ranks, index, edges);
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    ERROR(MPI_ERR_ARG, MPI_Graph_create(comm, -1, index, edges, 0, &none), "nnodes", "-1");
    ERROR(MPI_ERR_ARG, MPI_Graph_create(comm, ranks, NULL, edges, 0, &none), "index");
    ERROR(MPI_ERR_ARG, MPI_Graph_create(comm, ranks, index, NULL, 0, &none), "edges");
    ERROR(MPI_ERR_ARG, MPI_Graph_create(comm, ranks, index, edges, 0, NULL), "comm_graph");
    edges[1] = ranks;
    ERROR(MPI_ERR_ARG, MPI_Graph_create(comm, ranks, index, edges, 0, &none), "edges[1]");
    ERROR(MPI_ERR_ARG, MPI_Graph_map(comm, ranks, index, edges, &number), "edges[1]");
    index[0] = -1;
    ERROR(MPI_ERR_ARG, MPI_Graph_create(comm, ranks, index, edges, 0, &none), "index[0]", "-1");
    int empty[65] = {0};
    ERROR(MPI_ERR_TOPOLOGY, MPI_Graph_create(comm, ranks + 1, empty, edges, 0, &none), "nnodes");
    ERROR(MPI_ERR_TOPOLOGY, MPI_Graph_neighbors_count(comm, 0, &number), "no topology");
    describe(ranks, index, edges);
    edges[0] = me == 0 ? 1 % ranks : 0;
    if (ranks > 1)
        ERROR(MPI_ERR_TOPOLOGY, MPI_Graph_create(comm, ranks, index, edges, 0, &none), "different");
    MPI_Comm graph;
    describe(ranks, index, edges);
    OK(MPI_Graph_create(comm, ranks, index, edges, 0, &graph));
    ERROR(MPI_ERR_RANK, MPI_Graph_neighbors_count(graph, ranks, &number), "rank");
    ERROR(MPI_ERR_RANK, MPI_Graph_neighbors(graph, -1, 5, edges), "rank", "-1");
    ERROR(MPI_ERR_ARG, MPI_Graph_neighbors(graph, 0, -2, edges), "maxneighbors", "-2");
    ERROR(MPI_ERR_ARG, MPI_Graph_get(graph, -2, 1, index, edges), "maxindex", "-2");
    ERROR(MPI_ERR_TOPOLOGY, MPI_Cartdim_get(graph, &number), "graph", "Cartesian");
    OK(MPI_Comm_free(&graph));
    OK(MPI_Comm_free(&comm));
}

/* What one process says of its edges. */
static void lists(MPI_Comm comm, int in, const int *sources, int out, const int *destinations, int weighted,
                  const int *from, const int *to)
{
    int indegree, outdegree, weights, got[4][64];
    SAME(kind(comm), MPI_DIST_GRAPH, "MPI_Topo_test");
    OK(MPI_Dist_graph_neighbors_count(comm, &indegree, &outdegree, &weights));
    SAME(indegree, in, "indegree");
    SAME(outdegree, out, "outdegree");
    SAME(weights, weighted, "weighted");
    OK(MPI_Dist_graph_neighbors(comm, 64, got[0], weighted ? got[1] : MPI_UNWEIGHTED, 64, got[2],
                                weighted ? got[3] : MPI_UNWEIGHTED));
    for (int i = 0; i < in; i++) {
        SAME(got[0][i], sources[i], "source %d", i);
        if (weighted)
            SAME(got[1][i], from[i], "weight of source %d", i);
    }
    for (int i = 0; i < out; i++) {
        SAME(got[2][i], destinations[i], "destination %d", i);
        if (weighted)
            SAME(got[3][i], to[i], "weight of destination %d", i);
    }
    /* Only the first part, and no weights. */
    for (int i = 0; i < 4; i++)
        got[i][1] = got[i][0] = -7;
    OK(MPI_Dist_graph_neighbors(comm, 1, got[0], MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED));
    SAME(got[0][0], in > 0 ? sources[0] : -7, "the first source");
    SAME(got[0][1], -7, "behind it");
}

/* A ring with two edges to the next process, and one to itself. */
static void adjacent(void)
{
    int before = (me + ranks - 1) % ranks, after = (me + 1) % ranks;
    int sources[3] = {before, me, before}, from[3] = {10 * before, 5, 10 * before + 1};
    int destinations[3] = {me, after, after}, to[3] = {5, 10 * me, 10 * me + 1};
    for (int weighted = 0; weighted < 2; weighted++) {
        MPI_Comm comm, twin;
        OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 3, sources, weighted ? from : MPI_UNWEIGHTED, 3, destinations,
                                          weighted ? to : MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
        lists(comm, 3, sources, 3, destinations, weighted, from, to);
        OK(MPI_Comm_dup(comm, &twin));
        OK(MPI_Comm_free(&comm));
        lists(twin, 3, sources, 3, destinations, weighted, from, to);
        OK(MPI_Comm_free(&twin));
    }
    /* Only rank 0 has edges, to itself; with weights, the others give the constant for none. */
    MPI_Comm comm;
    int zero = 0, nine = 9, number = me == 0, *weights = me == 0 ? &nine : MPI_WEIGHTS_EMPTY;
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, number, &zero, weights, number, &zero, weights, MPI_INFO_ENV, 1,
                                      &comm));
    lists(comm, number, &zero, number, &zero, 1, &nine, &nine);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, NULL, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                      &comm));
    lists(comm, 0, NULL, 0, NULL, 0, NULL, NULL);
    OK(MPI_Comm_free(&comm));
    OK(MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 0, NULL, MPI_WEIGHTS_EMPTY, 0, NULL, MPI_WEIGHTS_EMPTY,
                                      MPI_INFO_NULL, 0, &comm));
    lists(comm, 0, NULL, 0, NULL, 1, NULL, NULL);
    OK(MPI_Comm_free(&comm));
}

/* Every process gives edges of others: from each to each, weighted by who gives them. */
static void by_others(void)
{
    int sources[64], degrees[64], destinations[256], weights[256], number = 0;
    int given = ranks < 3 ? ranks : 3;
    for (int i = 0; i < given; i++) {
        sources[i] = (me + i) % ranks;
        degrees[i] = 2;
        destinations[number] = (me + 2 * i) % ranks;
        weights[number++] = 100 * me + 2 * i;
        destinations[number] = me;
        weights[number++] = 100 * me + 2 * i + 1;
    }
    /* By rank of the giver, and of each in its order. */
    int in = 0, out = 0, ends[4][64];
    for (int giver = 0; giver < ranks; giver++)
        for (int i = 0; i < given; i++)
            for (int k = 0; k < 2; k++) {
                int source = (giver + i) % ranks, destination = k == 0 ? (giver + 2 * i) % ranks : giver;
                if (destination == me)
                    ends[0][in] = source, ends[1][in++] = 100 * giver + 2 * i + k;
                if (source == me)
                    ends[2][out] = destination, ends[3][out++] = 100 * giver + 2 * i + k;
            }
    for (int weighted = 0; weighted < 2; weighted++) {
        MPI_Comm comm;
        OK(MPI_Dist_graph_create(MPI_COMM_WORLD, given, sources, degrees, destinations,
                                 weighted ? weights : MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm));
        lists(comm, in, ends[0], out, ends[2], weighted, ends[1], ends[3]);
        OK(MPI_Comm_free(&comm));
    }
    /* The last process gives all edges: a star. */
    for (int i = 0; i < ranks; i++)
        destinations[i] = i, weights[i] = i;
    sources[0] = 0;
    degrees[0] = ranks;
    MPI_Comm comm;
    int last = me == ranks - 1, zero = 0;
    OK(MPI_Dist_graph_create(MPI_COMM_WORLD, last, sources, degrees, destinations, last ? weights : MPI_WEIGHTS_EMPTY,
                             MPI_INFO_NULL, 0, &comm));
    lists(comm, 1, &zero, me == 0 ? ranks : 0, destinations, 1, &me, weights);
    OK(MPI_Comm_free(&comm));
}

static void dist_errors(void)
{
    int one = 1, wrong = ranks, minus = -1, number, self = me;
    MPI_Comm comm, none;
    OK(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    OK(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
#define ADJACENT(in, sources, from, out, destinations, to, new)                                                        \
    MPI_Dist_graph_create_adjacent(comm, in, sources, from, out, destinations, to, MPI_INFO_NULL, 0, new)
    ERROR(MPI_ERR_ARG, ADJACENT(-1, NULL, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED, &none), "indegree", "-1");
    ERROR(MPI_ERR_ARG, ADJACENT(0, NULL, MPI_UNWEIGHTED, -3, NULL, MPI_UNWEIGHTED, &none), "outdegree", "-3");
    ERROR(MPI_ERR_ARG, ADJACENT(1, NULL, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED, &none), "sources");
    ERROR(MPI_ERR_RANK, ADJACENT(1, &wrong, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED, &none), "sources[0]");
    ERROR(MPI_ERR_RANK, ADJACENT(0, NULL, MPI_UNWEIGHTED, 1, &minus, MPI_UNWEIGHTED, &none), "destinations[0]", "-1");
    ERROR(MPI_ERR_ARG, ADJACENT(1, &self, &minus, 0, NULL, MPI_WEIGHTS_EMPTY, &none), "sourceweights[0]", "-1");
    ERROR(MPI_ERR_ARG, ADJACENT(1, &self, NULL, 1, &self, &one, &none), "sourceweights");
    ERROR(MPI_ERR_ARG, ADJACENT(1, &self, &one, 1, &self, MPI_WEIGHTS_EMPTY, &none), "destweights", "MPI_WEIGHTS_EMPTY");
    ERROR(MPI_ERR_ARG, ADJACENT(1, &self, &one, 1, &self, MPI_UNWEIGHTED, &none), "MPI_UNWEIGHTED");
    ERROR(MPI_ERR_ARG, ADJACENT(0, NULL, MPI_UNWEIGHTED, 0, NULL, MPI_UNWEIGHTED, NULL), "comm_dist_graph");
    ERROR(MPI_ERR_INFO,
          MPI_Dist_graph_create(comm, 0, NULL, NULL, NULL, MPI_UNWEIGHTED, (MPI_Info)MPI_COMM_WORLD, 0, &none), "info");
#define GRAPH(n, sources, degrees, destinations, weights)                                                              \
    MPI_Dist_graph_create(comm, n, sources, degrees, destinations, weights, MPI_INFO_NULL, 0, &none)
    ERROR(MPI_ERR_ARG, GRAPH(-1, NULL, NULL, NULL, MPI_UNWEIGHTED), "n is -1");
    ERROR(MPI_ERR_ARG, GRAPH(1, &self, &minus, &self, MPI_UNWEIGHTED), "degrees[0]", "-1");
    ERROR(MPI_ERR_RANK, GRAPH(1, &wrong, &one, &self, MPI_UNWEIGHTED), "sources[0]");
    ERROR(MPI_ERR_RANK, GRAPH(1, &self, &one, &wrong, MPI_UNWEIGHTED), "destinations[0]");
    ERROR(MPI_ERR_ARG, GRAPH(1, &self, &one, &self, NULL), "weights");
    if (ranks > 1)
        ERROR(MPI_ERR_TOPOLOGY, GRAPH(1, &self, &one, &self, me == 0 ? &one : MPI_UNWEIGHTED), "weights");
    ERROR(MPI_ERR_TOPOLOGY, MPI_Dist_graph_neighbors(comm, 0, NULL, NULL, 0, NULL, NULL), "no topology");
    MPI_Comm graph;
    OK(MPI_Dist_graph_create(comm, 1, &self, &one, &self, &one, MPI_INFO_NULL, 0, &graph));
    ERROR(MPI_ERR_TOPOLOGY, MPI_Graphdims_get(graph, &number, &number), "distributed graph");
    ERROR(MPI_ERR_ARG, MPI_Dist_graph_neighbors(graph, -1, NULL, NULL, 0, NULL, NULL), "maxindegree", "-1");
    OK(MPI_Comm_free(&graph));
    OK(MPI_Comm_free(&comm));
}

int main(int argc, char **argv)
{
    begin(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    graphs();
    graph_errors();
    adjacent();
    by_others();
    dist_errors();
    return end("graphs");
}
