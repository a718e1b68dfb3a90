/* libfabric alone, without Weft: an endpoint of `tcp;ofi_rxm` has one receive buffer for many messages (FI_MULTI_RECV). It gets messages
 * that fit, one that is longer than the rest of the buffer, and a short one. Nothing may be written behind the buffer. With 2.5 the short one
 * is: docs/providers.md. Status 0: nothing was written there, 1: something was, 77: it can't be run. */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Three long ones fit, the fourth does not. */
enum { LONG = 300000, SHORT = 4000, FITTING = 3, ROOM = 1 << 20, BEHIND = 1 << 19, LEAST = 16384 };

struct end {
    struct fid_ep *endpoint;
    struct fid_cq *queue;
    struct fid_av *addresses;
    char name[64];
};

/* Where nothing is written it stays 0; all that is sent is not. */
static char buffer[ROOM + BEHIND], other[ROOM], words[LONG];
static struct fi_context2 receives[2], send_context;
static int ended, failed;

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
    size_t least = LEAST, len = sizeof end->name;
    /* From 2.0 on it has to be set before, and until then after the endpoint is enabled. */
    int before = FI_MAJOR(fi_version()) >= 2;
    hints->caps = FI_MSG | FI_MULTI_RECV;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("tcp;ofi_rxm");
    MUST(fi_getinfo(FI_VERSION(1, 15), "127.0.0.1", "0", FI_SOURCE, hints, &info));
    MUST(fi_fabric(info->fabric_attr, &fabric, NULL));
    MUST(fi_domain(fabric, info, &domain, NULL));
    struct fi_cq_attr queue = {.size = 1024, .format = FI_CQ_FORMAT_DATA};
    struct fi_av_attr addresses = {.type = FI_AV_TABLE};
    MUST(fi_cq_open(domain, &queue, &end->queue, NULL));
    MUST(fi_av_open(domain, &addresses, &end->addresses, NULL));
    MUST(fi_endpoint(domain, info, &end->endpoint, NULL));
    MUST(fi_ep_bind(end->endpoint, &end->queue->fid, FI_TRANSMIT | FI_RECV));
    MUST(fi_ep_bind(end->endpoint, &end->addresses->fid, 0));
    if (before)
        MUST(fi_setopt(&end->endpoint->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
    MUST(fi_enable(end->endpoint));
    if (!before)
        MUST(fi_setopt(&end->endpoint->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof least));
    MUST(fi_getname(&end->endpoint->fid, end->name, &len));
    fi_freeinfo(hints);
}

static void post(struct end *end, char *memory, int which)
{
    struct iovec segment = {memory, ROOM};
    struct fi_msg message = {.msg_iov = &segment, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &receives[which]};
    MUST(fi_recvmsg(end->endpoint, &message, FI_MULTI_RECV));
}

/* How many messages came, well or not; of what is sent nothing is counted. */
static void poll_end(struct end *end, int receives_messages)
{
    struct fi_cq_data_entry entry;
    struct fi_cq_err_entry error = {0};
    ssize_t count = fi_cq_read(end->queue, &entry, 1);
    if (count == -FI_EAVAIL) {
        MUST(fi_cq_readerr(end->queue, &error, 0));
        ended += receives_messages;
        failed += receives_messages;
    } else if (count != -FI_EAGAIN) {
        MUST(count);
        ended += receives_messages && (entry.flags & FI_RECV);
    }
}

int main(void)
{
    static struct end sender, receiver;
    fi_addr_t to;
    open_end(&sender);
    open_end(&receiver);
    post(&receiver, buffer, 0);
    post(&receiver, other, 1);
    memset(words, 'w', sizeof words);
    if (fi_av_insert(sender.addresses, receiver.name, 1, &to, 0, NULL) != 1)
        return 77;
    for (int number = 1; number <= FITTING + 2; number++) {
        size_t len = number == FITTING + 2 ? SHORT : LONG;
        time_t start = time(NULL);
        ssize_t status;
        while ((status = fi_send(sender.endpoint, words, len, NULL, to, &send_context)) == -FI_EAGAIN) {
            poll_end(&sender, 0);
            poll_end(&receiver, 1);
        }
        MUST(status);
        while (ended < number && time(NULL) - start < 15) {
            poll_end(&sender, 0);
            poll_end(&receiver, 1);
        }
    }
    int behind = 0;
    for (int at = ROOM; at < ROOM + BEHIND; at++)
        behind += buffer[at] != 0;
    printf("tcp;ofi_rxm of libfabric %u.%u: of %d messages %d ended, %d of them with an error; %d bytes were written behind the buffer\n",
           FI_MAJOR(fi_version()), FI_MINOR(fi_version()), FITTING + 2, ended, failed, behind);
    return behind != 0;
}
