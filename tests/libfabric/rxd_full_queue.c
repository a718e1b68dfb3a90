/* libfabric alone, without Weft: one endpoint of `udp;ofi_rxd` sends to 20 others of its process, and polls only then. All messages have
 * to arrive. In 1.17 and 2.1 they do not: docs/providers.md says why. Status 0: all arrived, 1: some did not, 77: it can't be run. */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* 43 messages of three packets are a window (128 packets). Sixteen windows fill the queue of ofi_rxd's own endpoint, which has 2048 entries. */
enum { RECEIVERS = 20, EACH = 44, WORDS = 1024, ALL = RECEIVERS * EACH };

struct end {
    struct fid_ep *endpoint;
    struct fid_cq *queue;
    struct fid_av *addresses;
    char name[64];
};

static uint32_t out[RECEIVERS][EACH][WORDS], in[RECEIVERS][EACH][WORDS];
static struct fi_context sends[RECEIVERS][EACH], receives[RECEIVERS][EACH];
static int sent, arrived;

static void must(int result, const char *call)
{
    if (result >= 0)
        return;
    printf("%s: %s\n", call, fi_strerror(-result));
    exit(77);
}
#define MUST(call) must((int)(call), #call)

static void open_end(struct end *end)
{
    struct fi_info *hints = fi_allocinfo(), *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("udp;ofi_rxd");
    MUST(fi_getinfo(FI_VERSION(1, 15), "127.0.0.1", "0", FI_SOURCE, hints, &info));
    MUST(fi_fabric(info->fabric_attr, &fabric, NULL));
    MUST(fi_domain(fabric, info, &domain, NULL));
    struct fi_cq_attr queue = {.size = 4096, .format = FI_CQ_FORMAT_DATA};
    struct fi_av_attr addresses = {.type = FI_AV_TABLE};
    MUST(fi_cq_open(domain, &queue, &end->queue, NULL));
    MUST(fi_av_open(domain, &addresses, &end->addresses, NULL));
    MUST(fi_endpoint(domain, info, &end->endpoint, NULL));
    MUST(fi_ep_bind(end->endpoint, &end->queue->fid, FI_TRANSMIT | FI_RECV));
    MUST(fi_ep_bind(end->endpoint, &end->addresses->fid, 0));
    MUST(fi_enable(end->endpoint));
    size_t len = sizeof end->name;
    MUST(fi_getname(&end->endpoint->fid, end->name, &len));
    fi_freeinfo(hints);
}

/* How many operations ended. */
static int poll_end(struct end *end)
{
    struct fi_cq_data_entry entries[16];
    ssize_t count = fi_cq_read(end->queue, entries, 16);
    if (count != -FI_EAGAIN)
        MUST(count);
    return count > 0 ? (int)count : 0;
}

/* Until so many messages have arrived and their sends have ended, or nothing has for 15 s: ofi_rxd tries again after 4 s at most. */
static void poll_all(struct end *sender, struct end *receivers, int wanted)
{
    time_t last = time(NULL);
    while ((sent < wanted || arrived < wanted) && time(NULL) - last < 15) {
        int before = sent + arrived;
        sent += poll_end(sender);
        for (int at = 0; at < RECEIVERS; at++)
            arrived += poll_end(&receivers[at]);
        if (sent + arrived != before)
            last = time(NULL);
    }
}

int main(void)
{
    static struct end sender, receivers[RECEIVERS];
    fi_addr_t to[RECEIVERS];
    open_end(&sender);
    for (int at = 0; at < RECEIVERS; at++) {
        struct end *one = &receivers[at];
        open_end(one);
        if (fi_av_insert(sender.addresses, one->name, 1, &to[at], 0, NULL) != 1)
            return 77;
        for (int k = 0; k < EACH; k++)
            MUST(fi_recv(one->endpoint, in[at][k], sizeof in[at][k], NULL, FI_ADDR_UNSPEC, &receives[at][k]));
    }
    for (int k = 0; k < EACH; k++) {
        for (int at = 0; at < RECEIVERS; at++) {
            for (int word = 0; word < WORDS; word++)
                out[at][k][word] = (uint32_t)(at * EACH + k + 1);
            MUST(fi_send(sender.endpoint, out[at][k], sizeof out[at][k], NULL, to[at], &sends[at][k]));
        }
        /* The first to each makes the connection. */
        if (k == 0)
            poll_all(&sender, receivers, RECEIVERS);
    }
    poll_all(&sender, receivers, ALL);
    int wrong = 0;
    for (int at = 0; at < RECEIVERS; at++)
        for (int k = 0; k < EACH; k++)
            wrong += memcmp(in[at][k], out[at][k], sizeof in[at][k]) != 0;
    printf("udp;ofi_rxd of libfabric %u.%u: of %d messages %d arrived, %d are not where they belong; %d sends ended\n",
           FI_MAJOR(fi_version()), FI_MINOR(fi_version()), ALL, arrived, wrong, sent);
    return wrong != 0 || sent != ALL || arrived != ALL;
}
