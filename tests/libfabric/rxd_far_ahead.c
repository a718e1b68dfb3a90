/* libfabric alone, without Weft: one endpoint of `udp;ofi_rxd` sends to another of its process, as far ahead as libfabric takes it, or by so
 * many messages: rxd_far_ahead [AHEAD]. All messages have to arrive. On a busy machine some runs over 1.17 stop near the end: docs/providers.md.
 * Status 0: all arrived, 1: nothing has for 15 s and some did not, 77: it can't be run. */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Messages are injected where they are short; of the others that many may be under way. */
enum { ALL = 6000, SENDS = 512, LONGEST = 4096, BUFFERS = 4, BUFFER_BYTES = 1 << 20 };

struct end {
    struct fid_ep *endpoint;
    struct fid_cq *queue;
    struct fid_av *addresses;
    size_t inject;
    char name[64];
};

static char out[LONGEST], in[BUFFERS][BUFFER_BYTES];
static struct fi_context sends[ALL], receives[BUFFERS];

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
    hints->caps = FI_MSG | FI_MULTI_RECV;
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
    size_t len = sizeof end->name, longest = LONGEST;
    MUST(fi_setopt(&end->endpoint->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &longest, sizeof longest));
    MUST(fi_getname(&end->endpoint->fid, end->name, &len));
    end->inject = info->tx_attr->inject_size;
    fi_freeinfo(hints);
}

static void post(struct end *end, int at)
{
    struct iovec all = {in[at], BUFFER_BYTES};
    struct fi_msg receive = {.msg_iov = &all, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &receives[at]};
    MUST(fi_recvmsg(end->endpoint, &receive, FI_MULTI_RECV));
}

/* How many sends have ended, or messages arrived. */
static int poll_end(struct end *end)
{
    struct fi_cq_data_entry entries[16];
    ssize_t count = fi_cq_read(end->queue, entries, 16);
    if (count != -FI_EAGAIN)
        MUST(count);
    for (int at = 0; at < count; at++)
        if (entries[at].flags & FI_MULTI_RECV)
            post(end, (struct fi_context *)entries[at].op_context - receives);
    return count > 0 ? (int)count : 0;
}

int main(int argc, char **argv)
{
    static struct end sender, receiver;
    fi_addr_t to;
    int ahead = argc > 1 ? atoi(argv[1]) : ALL, started = 0, counted = 0, ended = 0, arrived = 0;
    open_end(&sender);
    open_end(&receiver);
    if (fi_av_insert(sender.addresses, receiver.name, 1, &to, 0, NULL) != 1)
        return 77;
    for (int at = 0; at < BUFFERS; at++)
        post(&receiver, at);
    time_t last = time(NULL);
    while ((started < ALL || ended < counted || arrived < ALL) && time(NULL) - last < 15) {
        int before = started + ended + arrived;
        while (started < ALL && started - arrived < ahead) {
            size_t len = started % 10 < 2 ? LONGEST : started % 10 < 4 ? 1000 : 48;
            int is_counted = len > sender.inject;
            if (is_counted && counted - ended == SENDS)
                break;
            ssize_t result = is_counted ? fi_send(sender.endpoint, out, len, NULL, to, &sends[started])
                                        : fi_inject(sender.endpoint, out, len, to);
            if (result == -FI_EAGAIN)
                break;
            MUST(result);
            started++;
            counted += is_counted;
        }
        ended += poll_end(&sender);
        arrived += poll_end(&receiver);
        if (started + ended + arrived != before)
            last = time(NULL);
    }
    printf("udp;ofi_rxd of libfabric %u.%u: of %d messages %d arrived; %d of %d sends ended\n", FI_MAJOR(fi_version()),
           FI_MINOR(fi_version()), started, arrived, ended, counted);
    return arrived != ALL || ended != counted;
}
